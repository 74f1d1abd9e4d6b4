// Panels of columns: [panel][depth][column of the panel], with zeros past the last column.
//
// B: type of what is packed. VECTOR: floats of a vector. PANEL: columns of a panel: one vector, or
// two. PANELS: the address space of panels.

#define NAMED(a, b) JOINED(a, b)
typedef NAMED(float, VECTOR) vec;
#define VLOAD NAMED(vload, VECTOR)
#define VSTORE(v, i, p) NAMED(store_floats, VECTOR)((p) + (i) * VECTOR, v)
#define LOADS_float(p) VLOAD(0, p)
#define LOADS_half(p) NAMED(load_halves, VECTOR)(p)
#define LOADS_bfloat(p) NAMED(load_bfloats, VECTOR)(p)
#define LOADS(p) NAMED(LOADS_, B)(p)

// Pack a square of VECTOR columns and terms, whose terms are neighbours. Each round interleaves the
// first half of the vectors with the second; after log2(VECTOR) rounds, columns are rows.
void pack_square(PANELS float *packed, const __global B *b, ulong line)
{
    vec square[VECTOR], mixed[VECTOR];
#pragma unroll
    for (uint j = 0; j < VECTOR; ++j) {
        square[j] = LOADS(b + j * line);
    }
#pragma unroll
    for (uint round = 1; round < VECTOR; round *= 2) {
#pragma unroll
        for (uint j = 0; j < VECTOR / 2; ++j) {
            mixed[2 * j].even = square[j].lo;
            mixed[2 * j].odd = square[j + VECTOR / 2].lo;
            mixed[2 * j + 1].even = square[j].hi;
            mixed[2 * j + 1].odd = square[j + VECTOR / 2].hi;
        }
#pragma unroll
        for (uint j = 0; j < VECTOR; ++j) {
            square[j] = mixed[j];
        }
    }
#pragma unroll
    for (uint k = 0; k < VECTOR; ++k) {
        VSTORE(square[k], 0, packed + k * PANEL);
    }
}

// Pack some terms of depth of a few columns, one by one.
void pack_rest(PANELS float *packed, const __global B *b, uint columns, ulong line, ulong step, uint depth)
{
    for (uint k = 0; k < depth; ++k) {
        for (uint j = 0; j < columns; ++j) {
            packed[k * PANEL + j] = LOAD_AS(B, b, k * step + j * line);
        }
    }
}

// Pack the terms of depth `from` to `to` of one panel; `line` and `step` are the elements between
// neighbouring columns, and terms.
void pack_panel(PANELS float *packed, const __global B *b, uint columns, ulong line, ulong step, uint from, uint to)
{
    packed += (ulong)from * PANEL;
    b += from * step;
    const uint depth = to - from;
    const uint whole_columns = columns / VECTOR * VECTOR;
    uint k = 0;
    if (columns < PANEL) {
        for (uint i = 0; i < depth * PANEL; ++i) {
            packed[i] = 0;
        }
    }
    if (line == 1) {
        for (; k < depth; ++k) {
            for (uint j = 0; j < whole_columns; j += VECTOR) {
                VSTORE(LOADS(b + k * step + j), 0, packed + k * PANEL + j);
            }
        }
    } else if (step == 1) {
        for (; k + VECTOR <= depth; k += VECTOR) {
            for (uint j = 0; j < whole_columns; j += VECTOR) {
                pack_square(packed + k * PANEL + j, b + j * line + k, line);
            }
        }
    }
    pack_rest(packed + k * PANEL, b + k * step, whole_columns, line, step, depth - k);
    pack_rest(packed + whole_columns, b + whole_columns * line, columns - whole_columns, line, step, depth);
}
