#define _GNU_SOURCE /* dladdr */
#include "signals.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#define N_SIGNALS 65

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int depth;
static int is_kept[N_SIGNALS];
static struct sigaction kept[N_SIGNALS];

void signals_keep(void)
{
    pthread_mutex_lock(&lock);
    if (!depth++) {  /* what the driver sets for one thread must not be kept for another */
        for (int i = 1; i < N_SIGNALS; i++) {
            is_kept[i] = sigaction(i, NULL, &kept[i]) == 0;
        }
    }
    pthread_mutex_unlock(&lock);
}

static const void *library_of(const void *function)
{
    Dl_info found;
    return dladdr(function, &found) ? found.dli_fbase : NULL;
}

void signals_put_back(const void *host)
{
    const void *library = library_of(host);
    pthread_mutex_lock(&lock);
    for (int i = 1; i < N_SIGNALS; i++) {
        struct sigaction now;
        if (!is_kept[i] || sigaction(i, NULL, &now) || now.sa_sigaction == kept[i].sa_sigaction) {
            continue;
        }
        if (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN && library_of((void *)now.sa_sigaction) == library) {
            kept[i] = now;
        } else {
            sigaction(i, &kept[i], NULL);
        }
    }
    depth--;
    pthread_mutex_unlock(&lock);
}
