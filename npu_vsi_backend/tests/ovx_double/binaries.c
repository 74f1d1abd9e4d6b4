/* Files laid out as NBG is; see binary.py. */
#include "double.h"

#include <string.h>

enum {
    VERSION = 0x20005,
    TABLE_AT = 0x3C,
    ENTRY = 44,
    SECTIONS = 3,
    NODES = 0x7F,               /* a section of this double alone */
    FIRST = TABLE_AT + SECTIONS * ENTRY
};

static void put(uint8_t *place, size_t at, uint32_t value)
{
    memcpy(place + at, &value, sizeof(value));
}

static uint32_t get(const uint8_t *place, size_t at)
{
    uint32_t value;
    memcpy(&value, place + at, sizeof(value));
    return value;
}

static uint32_t checksum(const uint8_t *place, size_t size)
{
    uint32_t sum = 0xFFFFFFFF;
    for (size_t i = 0; i < size; i++) {
        sum ^= i >= 12 && i < 16 ? 0 : place[i];
        for (int bit = 0; bit < 8; bit++) {
            sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320 : 0);
        }
    }
    return ~sum;
}

size_t binary_write(const program *written, uint8_t *place)
{
    const uint32_t kinds[SECTIONS] = {1, 2, NODES};
    const size_t sizes[SECTIONS] = {
        written->n_inputs * sizeof(record), written->n_outputs * sizeof(record), sizeof(uint32_t)};
    size_t size = FIRST + sizes[0] + sizes[1] + sizes[2];
    if (!place) {
        return size;
    }
    memset(place, 0, size);
    memcpy(place, "VPMN", 4);
    put(place, 4, VERSION);
    put(place, 8, written->target);
    put(place, 16, (uint32_t)size);
    put(place, 48, TABLE_AT);
    put(place, 52, ENTRY);
    put(place, 56, SECTIONS);
    size_t offset = FIRST;
    for (int i = 0; i < SECTIONS; i++) {
        size_t entry = TABLE_AT + (size_t)i * ENTRY;
        put(place, entry, kinds[i]);
        put(place, entry + 4, (uint32_t)offset);
        put(place, entry + 12, (uint32_t)sizes[i]);
        put(place, entry + 32, i < 2 ? sizeof(record) : sizeof(uint32_t));
        offset += sizes[i];
    }
    memcpy(place + FIRST, written->operands, sizes[0] + sizes[1]);
    put(place, FIRST + sizes[0] + sizes[1], written->n_nodes);
    put(place, 12, checksum(place, size));
    return size;
}

int binary_read(program *read, const uint8_t *place)
{
    if (memcmp(place, "VPMN", 4) != 0 || get(place, 4) != VERSION || get(place, 12) != checksum(place, get(place, 16))) {
        return 0;
    }
    read->target = get(place, 8);
    read->n_inputs = get(place, TABLE_AT + 12) / sizeof(record);
    read->n_outputs = get(place, TABLE_AT + ENTRY + 12) / sizeof(record);
    memcpy(read->operands, place + FIRST, (read->n_inputs + read->n_outputs) * sizeof(record));
    read->n_nodes = get(place, FIRST + (read->n_inputs + read->n_outputs) * sizeof(record));
    return 1;
}
