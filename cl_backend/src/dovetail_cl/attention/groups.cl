// y = softmax(scores of q and k) v on a GPU: a group of 16 x 16 work items has some rows of q, and
// takes all keys, KEYS at a time, from strips in local memory. What it has of a softmax goes on
// from one time to the next (Dao et al., FlashAttention, 2022).
//
// DOWN: rows of an item, 2 or 4. PARTS: times 64 columns of v and y. T: type of q, k, v and y.
// COUNT: operands of the epilogue that finishes a score.
// OPERANDS_OF(row): arguments for them, at a row of a batch and a head.

#define ITEMS 256
#define ROWS (16 * DOWN)
#define KEYS 64
#define LANES (ITEMS / ROWS)            // items that share a row of scores
#define STRIP 16                        // terms of depth at once
#define FEW (PARTS > 2 ? 8 : 16)        // keys of v at once
#define Q_LINE (ROWS + 4)               // of a strip: fours stay aligned, and fall on other banks
#define LINE (KEYS + 4)
#define COLUMNS (64 * PARTS)
#define ROOM_OF_SCORES (STRIP * (Q_LINE + LINE))
#define ROOM_OF_VALUES (FEW * COLUMNS)
#define ROOM (ROOM_OF_SCORES > ROOM_OF_VALUES ? ROOM_OF_SCORES : ROOM_OF_VALUES)

// Bring terms `term` to `term` + STRIP of some lines: [term][line], zeros past the ends.
void bring(__local float *strip, const uint line, const uint lines, const __global T *x, const uint there,
           const uint depth, const uint line_step, const uint step, const uint term)
{
    for (uint i = get_local_id(0); i < lines * STRIP; i += ITEMS) {
        // Neighbouring items read neighbours.
        const uint t = step == 1 ? i % STRIP : i / lines, l = step == 1 ? i / STRIP : i % lines;
        const int is_there = l < there && term + t < depth;
        strip[t * line + l] = is_there ? LOAD_AS(T, x, l * line_step + (term + t) * step) : 0.0f;
    }
}

float finished_score(float v, const uint key FINISH_PARAMETERS)
{
    FINISH(v, 0, key)
    return v;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void attend(ATTENTION FINISH_PARAMETERS)
{
    __local float4 room[ROOM / 4];
    __local float weights[ROWS * LINE], shares[ITEMS], tops[ROWS], totals[ROWS], factors[ROWS];
    __local float *q_strip = (__local float *)room, *k_strip = q_strip + STRIP * Q_LINE;
    ATTENTION_BEGIN
    const uint item = get_local_id(0), across = item % 16, down = item / 16, own = item / LANES, lane = item % LANES;
    const uint begin = get_group_id(0) * ROWS;
    for (uint matrix = get_group_id(1); matrix < p.matrices; matrix += get_num_groups(1)) {
        const uint batch = matrix / p.heads, head = matrix % p.heads;
        const __global T *queries = q + OF_MATRIX(q) + begin * p.q[2];
        const __global T *keys = k + OF_MATRIX(k), *values = v + OF_MATRIX(v);
        float sums[PARTS][DOWN][4];
#pragma unroll
        for (uint part = 0; part < PARTS; ++part) {
#pragma unroll
            for (uint i = 0; i < DOWN; ++i) {
#pragma unroll
                for (uint j = 0; j < 4; ++j) {
                    sums[part][i][j] = 0;
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < ROWS) {
            tops[item] = -INFINITY;
            totals[item] = 0;
        }
        for (uint key = 0; key < p.keys; key += KEYS) {
            float scores[DOWN][4];
#pragma unroll
            for (uint i = 0; i < DOWN; ++i) {
#pragma unroll
                for (uint j = 0; j < 4; ++j) {
                    scores[i][j] = 0;
                }
            }
            for (uint term = 0; term < p.depth; term += STRIP) {
                barrier(CLK_LOCAL_MEM_FENCE);
                bring(q_strip, Q_LINE, ROWS, queries, p.rows - begin, p.depth, p.q[2], p.q[3], term);
                bring(k_strip, LINE, KEYS, keys + key * p.k[2], p.keys - key, p.depth, p.k[2], p.k[3], term);
                barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
                for (uint t = 0; t < STRIP; ++t) {
                    const float4 of_k = room[(STRIP * Q_LINE + t * LINE) / 4 + across];
#pragma unroll
                    for (uint i = 0; i < DOWN; ++i) {
                        const float of_q = q_strip[t * Q_LINE + down * DOWN + i];
                        scores[i][0] += of_q * of_k.s0;
                        scores[i][1] += of_q * of_k.s1;
                        scores[i][2] += of_q * of_k.s2;
                        scores[i][3] += of_q * of_k.s3;
                    }
                }
            }
#pragma unroll
            for (uint i = 0; i < DOWN; ++i) {
                const uint line = down * DOWN + i, row = min(begin + line, p.rows - 1);
#pragma unroll
                for (uint j = 0; j < 4; ++j) {
                    const uint column = across * 4 + j;
                    float score = -INFINITY;
                    if (key + column < p.keys) {
                        score = finished_score(scores[i][j], key + column OPERANDS_OF(row));
                    }
                    weights[line * LINE + column] = score;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            const float before = tops[own];
            float top = -INFINITY, total = 0;
            for (uint j = lane; j < KEYS; j += LANES) {
                top = MAX_BUT_NAN(top, weights[own * LINE + j]);
            }
            shares[item] = top;
            barrier(CLK_LOCAL_MEM_FENCE);
            top = before;
            for (uint l = 0; l < LANES; ++l) {
                top = MAX_BUT_NAN(top, shares[own * LANES + l]);
            }
            const float base = base_of(top);
            for (uint j = lane; j < KEYS; j += LANES) {
                const float power = power_of_e(weights[own * LINE + j] - base);
                weights[own * LINE + j] = power;
                total += power;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            shares[item] = total;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (lane == 0) {
                for (uint l = 1; l < LANES; ++l) {
                    total += shares[item + l];
                }
                const float factor = power_of_e(before - base);
                totals[own] = totals[own] * factor + total;
                tops[own] = top;
                factors[own] = factor;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
            for (uint i = 0; i < DOWN; ++i) {
                const float factor = factors[down * DOWN + i];
#pragma unroll
                for (uint part = 0; part < PARTS; ++part) {
#pragma unroll
                    for (uint j = 0; j < 4; ++j) {
                        sums[part][i][j] *= factor;
                    }
                }
            }
            for (uint from = 0; from < min((uint)KEYS, p.keys - key); from += FEW) {
                barrier(CLK_LOCAL_MEM_FENCE);
                for (uint i = item; i < FEW * COLUMNS; i += ITEMS) {
                    const uint column = i % COLUMNS, at_key = key + from + i / COLUMNS;
                    const int is_there = column < p.width && at_key < p.keys;
                    q_strip[i] = is_there ? LOAD_AS(T, values, at_key * p.v[2] + column * p.v[3]) : 0.0f;
                }
                barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
                for (uint t = 0; t < FEW; ++t) {
#pragma unroll
                    for (uint part = 0; part < PARTS; ++part) {
                        const float4 of_v = room[(t * COLUMNS + part * 64) / 4 + across];
#pragma unroll
                        for (uint i = 0; i < DOWN; ++i) {
                            const float weight = weights[(down * DOWN + i) * LINE + from + t];
                            sums[part][i][0] += weight * of_v.s0;
                            sums[part][i][1] += weight * of_v.s1;
                            sums[part][i][2] += weight * of_v.s2;
                            sums[part][i][3] += weight * of_v.s3;
                        }
                    }
                }
            }
        }
#pragma unroll
        for (uint i = 0; i < DOWN; ++i) {
            const uint line = down * DOWN + i;
            const float factor = 1 / totals[line];
            __global T *to = y + OF_MATRIX(y) + (begin + line) * p.y[2];
#pragma unroll
            for (uint part = 0; part < PARTS; ++part) {
#pragma unroll
                for (uint j = 0; j < 4; ++j) {
                    const uint column = part * 64 + across * 4 + j;
                    if (begin + line < p.rows && column < p.width) {
                        STORE_AS(T, to, column * p.y[3], sums[part][i][j] * factor);
                    }
                }
            }
        }
    }
}
