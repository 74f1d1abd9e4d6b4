// y[places] = x[places]: elements of one type T are moved by strides.
//
// The innermost axis is axis 0. `transpose` needs x to be contiguous along axis 1 and y along axis
// 0.

enum { AXES = 16 };

typedef struct {
    uint size[AXES];
    int from[AXES];         // strides in elements: of x,
    int to[AXES];           // and of y
    int from_start, to_start;
    uint axes;              // how many there are, at least 1
} places;

// Where in the walk a work item is.
typedef struct {
    uint at[AXES];
    int p, q;               // elements of x and y
} position;

static void begin_at(position *here, const places *w, uint first, uint rest)
{
    here->p = w->from_start;
    here->q = w->to_start;
    for (uint axis = first; axis < w->axes; ++axis) {
        const uint next = axis + 1 < w->axes ? rest / w->size[axis] : 0;
        here->at[axis] = rest - next * w->size[axis];
        here->p += (int)here->at[axis] * w->from[axis];
        here->q += (int)here->at[axis] * w->to[axis];
        rest = next;
    }
}

// Go some steps along an axis, at most to its end, and there on to the next index of the axes
// outside of it.
static void advance(position *here, const places *w, uint axis, uint steps)
{
    here->at[axis] += steps;
    here->p += (int)steps * w->from[axis];
    here->q += (int)steps * w->to[axis];
    while (here->at[axis] == w->size[axis] && axis + 1 < w->axes) {
        here->p += w->from[axis + 1] - (int)w->size[axis] * w->from[axis];
        here->q += w->to[axis + 1] - (int)w->size[axis] * w->to[axis];
        here->at[axis] = 0;
        ++here->at[++axis];
    }
}

__kernel void copy(TENSOR(const T, x), TENSOR(T, y), const places w, const uint n)
{
    BEGIN(const T, x);
    BEGIN(T, y);
    position here;
#if ON_CPU
    SHARE(i, end, n);
    const uint length = w.size[0];
    if (i == end) {
        return;
    }
    begin_at(&here, &w, 0, i);
    while (i < end) {
        const uint rows = w.axes > 1 && here.at[0] == 0 ? min(w.size[1] - here.at[1], (end - i) / length) : 0;
        if (rows > 1) {
            const int from = w.from[1], to = w.to[1], step_from = w.from[0], step_to = w.to[0];
            for (uint row = 0; row < rows; ++row) {
                move(y + here.q + (int)row * to, step_to, x + here.p + (int)row * from, step_from, length);
            }
            advance(&here, &w, 1, rows);
            i += rows * length;
        } else {
            const uint run = min(length - here.at[0], end - i);
            move(y + here.q, w.to[0], x + here.p, w.from[0], run);
            advance(&here, &w, 0, run);
            i += run;
        }
    }
#else
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) {
        begin_at(&here, &w, 0, i);
        y[here.q] = x[here.p];
    }
#endif
}

#define PASTE(a, b) a##b
#define VECTOR(T, n) PASTE(T, n)
#define T8 VECTOR(T, 8)

// The elements of two vectors in turn: the first halves, and the second ones.
static T8 low(T8 a, T8 b) { return (T8)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3); }
static T8 high(T8 a, T8 b) { return (T8)(a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7); }

// A square of 8 x 8 elements: rows of x become columns of y.
static void transpose_square(__global T *restrict y, int to, __global const T *restrict x, int from)
{
    T8 a0 = vload8(0, x), a1 = vload8(0, x + from), a2 = vload8(0, x + 2 * from), a3 = vload8(0, x + 3 * from);
    T8 a4 = vload8(0, x + 4 * from), a5 = vload8(0, x + 5 * from), a6 = vload8(0, x + 6 * from), a7 = vload8(0, x + 7 * from);
    T8 b0 = low(a0, a4), b1 = high(a0, a4), b2 = low(a1, a5), b3 = high(a1, a5);
    T8 b4 = low(a2, a6), b5 = high(a2, a6), b6 = low(a3, a7), b7 = high(a3, a7);
    a0 = low(b0, b4), a1 = high(b0, b4), a2 = low(b1, b5), a3 = high(b1, b5);
    a4 = low(b2, b6), a5 = high(b2, b6), a6 = low(b3, b7), a7 = high(b3, b7);
    vstore8(low(a0, a4), 0, y);
    vstore8(high(a0, a4), 0, y + to);
    vstore8(low(a1, a5), 0, y + 2 * to);
    vstore8(high(a1, a5), 0, y + 3 * to);
    vstore8(low(a2, a6), 0, y + 4 * to);
    vstore8(high(a2, a6), 0, y + 5 * to);
    vstore8(low(a3, a7), 0, y + 6 * to);
    vstore8(high(a3, a7), 0, y + 7 * to);
}

// Tiles of TILE x TILE elements: along axis 0, then axis 1, then the axes outside of them.
__kernel void transpose(TENSOR(const T, x), TENSOR(T, y), const places w, const uint tiles)
{
    BEGIN(const T, x);
    BEGIN(T, y);
    position here;
    const uint width = w.size[0], height = w.size[1];
    const uint across = (width + TILE - 1) / TILE, down = (height + TILE - 1) / TILE;
    const int from = w.from[0], to = w.to[1];
#if ON_CPU
    EACH(tile, tiles) {
        const uint column = tile % across * TILE, row = tile / across % down * TILE;
        begin_at(&here, &w, 2, tile / across / down);
        const uint columns = min((uint)TILE, width - column), rows = min((uint)TILE, height - row);
        __global const T *source = x + here.p + (int)column * from + (int)row;
        __global T *target = y + here.q + (int)row * to + (int)column;
        const uint squares = columns / 8 * 8, lines = rows / 8 * 8;
        for (uint j = 0; j < lines; j += 8) {
            for (uint i = 0; i < squares; i += 8) {
                transpose_square(target + (int)j * to + (int)i, to, source + (int)i * from + (int)j, from);
            }
            for (uint i = squares; i < columns; ++i) {
                for (uint k = j; k < j + 8; ++k) {
                    target[(int)k * to + (int)i] = source[(int)i * from + (int)k];
                }
            }
        }
        for (uint j = lines; j < rows; ++j) {
            move(target + (int)j * to, 1, source + (int)j, from, columns);
        }
    }
#else
    // A group moves a tile through local memory, so that both sides are read and written in rows.
    __local T square[TILE][TILE + 1];
    const uint tile = get_group_id(0), lane = get_local_id(0) % TILE, first = get_local_id(0) / TILE;
    const uint step = get_local_size(0) / TILE;
    const uint column = tile % across * TILE, row = tile / across % down * TILE;
    begin_at(&here, &w, 2, tile / across / down);
    for (uint i = first; i < TILE; i += step) {
        if (column + i < width && row + lane < height) {
            square[i][lane] = x[here.p + (int)(column + i) * from + (int)(row + lane)];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = first; j < TILE; j += step) {
        if (row + j < height && column + lane < width) {
            y[here.q + (int)(row + j) * to + (int)(column + lane)] = square[lane][j];
        }
    }
#endif
}

// The even and the odd elements of two vectors, one behind the other.
static T8 even(T8 a, T8 b) { return (T8)(a.even, b.even); }
static T8 odd(T8 a, T8 b) { return (T8)(a.odd, b.odd); }

// Of 2, 3 or 4 rows of x the elements in turn.
static void zip(__global T *restrict y, __global const T *restrict x, int from, uint rows, uint n)
{
    uint i = 0;
    for (; i + 8 <= n; i += 8, y += 8 * rows) {
        const T8 a = vload8(0, x + i), b = vload8(0, x + from + (int)i);
        if (rows == 2) {
            vstore8(low(a, b), 0, y);
            vstore8(high(a, b), 1, y);
            continue;
        }
        const T8 c = vload8(0, x + 2 * from + (int)i);
        if (rows == 3) {
            vstore8((T8)(a.s0, b.s0, c.s0, a.s1, b.s1, c.s1, a.s2, b.s2), 0, y);
            vstore8((T8)(c.s2, a.s3, b.s3, c.s3, a.s4, b.s4, c.s4, a.s5), 1, y);
            vstore8((T8)(b.s5, c.s5, a.s6, b.s6, c.s6, a.s7, b.s7, c.s7), 2, y);
            continue;
        }
        const T8 d = vload8(0, x + 3 * from + (int)i);
        vstore8(low(low(a, c), low(b, d)), 0, y);
        vstore8(high(low(a, c), low(b, d)), 1, y);
        vstore8(low(high(a, c), high(b, d)), 2, y);
        vstore8(high(high(a, c), high(b, d)), 3, y);
    }
    for (; i < n; ++i, y += rows) {
        for (uint row = 0; row < rows; ++row) {
            y[row] = x[(int)row * from + (int)i];
        }
    }
}

// The reverse: rows of y take turns.
static void unzip(__global T *restrict y, int to, __global const T *restrict x, uint rows, uint n)
{
    uint i = 0;
    for (; i + 8 <= n; i += 8, x += 8 * rows) {
        const T8 a = vload8(0, x), b = vload8(1, x);
        if (rows == 2) {
            vstore8(even(a, b), 0, y + i);
            vstore8(odd(a, b), 0, y + to + (int)i);
            continue;
        }
        const T8 c = vload8(2, x);
        if (rows == 3) {
            vstore8((T8)(a.s0, a.s3, a.s6, b.s1, b.s4, b.s7, c.s2, c.s5), 0, y + i);
            vstore8((T8)(a.s1, a.s4, a.s7, b.s2, b.s5, c.s0, c.s3, c.s6), 0, y + to + (int)i);
            vstore8((T8)(a.s2, a.s5, b.s0, b.s3, b.s6, c.s1, c.s4, c.s7), 0, y + 2 * to + (int)i);
            continue;
        }
        const T8 d = vload8(3, x);
        vstore8(even(even(a, b), even(c, d)), 0, y + i);
        vstore8(even(odd(a, b), odd(c, d)), 0, y + to + (int)i);
        vstore8(odd(even(a, b), even(c, d)), 0, y + 2 * to + (int)i);
        vstore8(odd(odd(a, b), odd(c, d)), 0, y + 3 * to + (int)i);
    }
    for (; i < n; ++i, x += rows) {
        for (uint row = 0; row < rows; ++row) {
            y[(int)row * to + (int)i] = x[row];
        }
    }
}

// Axis 0 has 2 to 4 elements, which become neighbours, or were; axis 1 is contiguous on the other
// side.
__kernel void take_turns(TENSOR(const T, x), TENSOR(T, y), const places w, const uint n)
{
    BEGIN(const T, x);
    BEGIN(T, y);
    position here;
    const uint rows = w.size[0], length = w.size[1];
    SHARE(i, end, n);
    if (i == end) {
        return;
    }
    begin_at(&here, &w, 1, i);
    while (i < end) {
        const uint run = min(length - here.at[1], end - i);
        if (w.from[1] == 1) {
            zip(y + here.q, x + here.p, w.from[0], rows, run);
        } else {
            unzip(y + here.q, w.to[0], x + here.p, rows, run);
        }
        advance(&here, &w, 1, run);
        i += run;
    }
}
