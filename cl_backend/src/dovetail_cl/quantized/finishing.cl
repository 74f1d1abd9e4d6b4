// From single sums to results, by numbers of each filter.
//
// IN_DOUBLE: they are scaled in double, and `shifts` are not used.

typedef struct { int zero, out_zero, low, high; } scaling;

#if IN_DOUBLE
typedef double factor;
int finished(const int sum, const double by, const int unused, const scaling *s)
{
    return (int)clamp(round(sum * by) + s->out_zero, (double)s->low, (double)s->high);
}
#else
typedef int factor;
int finished(const int sum, const int multiplier, const int shift, const scaling *s)
{
    return clamp(requantized(sum, multiplier, shift) + s->out_zero, s->low, s->high);
}
#endif
