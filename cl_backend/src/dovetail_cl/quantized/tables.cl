// What a table says of each byte: of runs of bytes.

typedef struct {
    uint run;                   // bytes of a run
    uint from, to;              // bytes between runs, of the source and of the result
    uint start;                 // bytes before the first run of the result
} runs;

__kernel void look_up(TENSOR(const uchar, x), CONSTANT(uchar, table), TENSOR(uchar, y), const runs r, const uint n)
{
    BEGIN(const uchar, x);
    BEGIN(const uchar, table);
    BEGIN(uchar, y);
    y += r.start;
    EACH(i, n) {
        const uint line = i / r.run, at = i - line * r.run;
        y[line * r.to + at] = table[x[line * r.from + at]];
    }
}
