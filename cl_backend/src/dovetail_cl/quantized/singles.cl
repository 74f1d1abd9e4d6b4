// What kernels sum up that make one result at a time: products of quantized elements.
//
// T, W: types of elements and of weights.

#define B int
#define SUM int
#define ADD_PRODUCT(v, w, line, sum) ((sum) + ((v) - scale.zero) * ((w) - weight_zeros[line]))
#define FINISH_PARAMETERS , CONSTANT(int, weight_zeros), CONSTANT(float, factors), const scaling numbers
#define FINISH_BEGIN                                                                               \
    BEGIN(const int, weight_zeros);                                                                \
    BEGIN(const float, factors);                                                                   \
    const scaling scale = numbers;
#define FINISH(v, at, line) v = finished(v, factors[line], &scale);
