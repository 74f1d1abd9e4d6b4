/* Where a pointer points, as a later process can find it again: into a module of this package, by
 * its file and the distance from where it was loaded. */
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where a file was loaded, for addresses in it; 0 if it was not. */
static inline uintptr_t acc_base_of(const char *file) {
    struct link_map *map = NULL;
    void *handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) return 0;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map)) map = NULL;
    const uintptr_t base = map ? (uintptr_t)map->l_addr : 0;
    (void)dlclose(handle);
    return base;
}

/* The file that an address was loaded from; NULL if it was from none. */
static inline const char *acc_file_of(const void *address) {
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname ? info.dli_fname : NULL;
}

/* Whether there is memory at an address. */
static inline int acc_is_memory(uintptr_t address) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return msync((void *)(address / page * page), 1, MS_ASYNC) == 0;
}
