"""DetectionPostProcess: boxes are decoded, and those left out that overlap better ones."""

from libc.math cimport exp
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from dovetail.abi cimport DOVETAIL_OK, dovetail_call, tensor_data
from dovetail_reference.workloads.selection cimport entry, sorted_entries
from dovetail_reference.workloads.walking cimport errand, go_on, new_errand, next_span, span
from dovetail_reference.workloads.workload cimport new_workload, state_of, stated_workspace, workload_of


cdef struct box:
    float top
    float left
    float bottom
    float right

cdef struct detection_state:
    size_t workspace
    bint regular
    int64_t images
    int64_t boxes
    int64_t numbers         # of an encoded box
    int64_t columns         # scores of a box, the background's included
    int64_t classes
    int64_t detections
    int64_t told            # places of a detection
    int64_t per_class
    int64_t pool            # entries that are kept beside the candidates of one choice
    float score_threshold
    float iou_threshold
    double scales[4]        # of y, x, height, width

# Where one image is read and written; what is beside the tensors lies in the workspace.
cdef struct picture:
    const float *encoded
    const float *scores     # from the first class on
    const float *anchors
    box *found
    float *found_classes
    float *found_scores
    float *count
    entry *candidates       # twice as many as boxes
    entry *pool             # twice as many as a state says
    box *boxes


def create(layer, dtype):
    """Make the workload capsule."""
    descriptor, infos = layer.descriptor, [slot.info for slot in layer.inputs]
    capsule = new_workload(execute, sizeof(detection_state))
    cdef detection_state *self = <detection_state *>state_of(capsule)
    cdef int axis
    self.images, self.boxes, self.numbers = infos[0].sizes
    self.columns, self.classes = infos[1].sizes[2], descriptor.num_classes
    self.detections, self.told = descriptor.max_detections, descriptor.max_classes_per_detection
    self.per_class, self.regular = descriptor.detections_per_class, descriptor.regular
    self.score_threshold, self.iou_threshold = descriptor.score_threshold, descriptor.iou_threshold
    for axis in range(4):
        self.scales[axis] = descriptor.scales[axis]
    if self.images and self.boxes:  # else there may be any number of classes
        self.pool = self.classes
        if self.regular:
            self.pool = min(self.detections, self.classes * min(self.boxes, self.per_class))
    self.workspace = 2 * <size_t>(self.boxes + self.pool) * sizeof(entry) + <size_t>self.boxes * sizeof(box)
    workload_of(capsule).workspace = stated_workspace
    return capsule


cdef int execute(void *state, const dovetail_call *call) noexcept nogil:
    cdef detection_state *self = <detection_state *>state
    cdef errand run = new_errand(call)
    cdef picture at
    cdef int64_t image, places = self.detections * self.told
    at.candidates = <entry *>call.workspace
    at.pool = at.candidates + 2 * self.boxes
    at.boxes = <box *>(at.pool + 2 * self.pool)
    at.anchors = <const float *>tensor_data(&call.inputs[2])
    for image in range(self.images):
        at.encoded = <const float *>tensor_data(&call.inputs[0]) + image * self.boxes * self.numbers
        at.scores = <const float *>tensor_data(&call.inputs[1]) + image * self.boxes * self.columns
        at.scores += self.columns - self.classes
        at.found = <box *>tensor_data(&call.outputs[0]) + image * places
        at.found_classes = <float *>tensor_data(&call.outputs[1]) + image * places
        at.found_scores = <float *>tensor_data(&call.outputs[2]) + image * places
        at.count = <float *>tensor_data(&call.outputs[3]) + image
        clear(&at, places, &run)
        decode(self, &at, &run)
        if run.code == DOVETAIL_OK:
            if self.regular:
                detect_by_class(self, &at, &run)
            else:
                detect_by_box(self, &at, &run)
        if run.code != DOVETAIL_OK:
            return run.code
    return DOVETAIL_OK


cdef void clear(picture *at, int64_t places, errand *run) noexcept nogil:
    cdef span part = span(0, 0)
    while next_span(run, &part, places):
        memset(at.found + part.begin, 0, (part.end - part.begin) * sizeof(box))
        memset(at.found_classes + part.begin, 0, (part.end - part.begin) * sizeof(float))
        memset(at.found_scores + part.begin, 0, (part.end - part.begin) * sizeof(float))


cdef void decode(const detection_state *self, picture *at, errand *run) noexcept nogil:
    """Find corners; centers and halves of sizes are rounded before they are added."""
    cdef const double *scales = self.scales
    cdef const float *code
    cdef const float *anchor
    cdef float y, x, half_height, half_width
    cdef int64_t i
    for i in range(self.boxes):
        if not go_on(run, 16):
            return
        code, anchor = at.encoded + i * self.numbers, at.anchors + 4 * i
        y = <float>(<double>code[0] / scales[0] * anchor[2] + anchor[0])
        x = <float>(<double>code[1] / scales[1] * anchor[3] + anchor[1])
        half_height = <float>(0.5 * exp(<double>code[2] / scales[2]) * anchor[2])
        half_width = <float>(0.5 * exp(<double>code[3] / scales[3]) * anchor[3])
        at.boxes[i].top, at.boxes[i].left = y - half_height, x - half_width
        at.boxes[i].bottom, at.boxes[i].right = y + half_height, x + half_width


# -- candidates ------------------------------------------------------------------------------------


cdef inline uint64_t rank_of(float score) noexcept nogil:
    """A number that orders as scores do; -0 and 0 are equal, a NaN is below all."""
    cdef uint32_t bits, sign = <uint32_t>1 << 31
    if score != score:
        return 0
    score += <float>0.0     # -0 becomes 0
    memcpy(&bits, &score, sizeof(bits))
    return <uint32_t>~bits if bits & sign else bits | sign


cdef inline bint overlap(const box *a, const box *b, float threshold) noexcept nogil:
    """Tell whether more than this part of what two boxes cover lies in both."""
    cdef float area = (a.bottom - a.top) * (a.right - a.left)
    cdef float other = (b.bottom - b.top) * (b.right - b.left)
    cdef float height = min(a.bottom, b.bottom) - max(a.top, b.top)
    cdef float width = min(a.right, b.right) - max(a.left, b.left)
    if area <= 0 or other <= 0 or not (height > 0 and width > 0):
        return False
    cdef float both = height * width
    return both / (area + other - both) > threshold


cdef int64_t take(const detection_state *self, picture *at, entry *ranked, int64_t n, int64_t limit, errand *run) noexcept nogil:
    """Move the candidates that overlap no better one to the front; return how many they are."""
    cdef int64_t taken = 0, i, j
    cdef bint is_apart
    for i in range(n):
        if taken == limit or not go_on(run, 1):
            break
        is_apart = True
        for j in range(taken):
            if not go_on(run, 4):
                return 0
            if overlap(&at.boxes[ranked[j].position], &at.boxes[ranked[i].position], self.iou_threshold):
                is_apart = False
                break
        if is_apart:
            ranked[taken] = ranked[i]
            taken += 1
    return taken


# -- each box for its best class -------------------------------------------------------------------


cdef void detect_by_box(const detection_state *self, picture *at, errand *run) noexcept nogil:
    cdef const float *scores = at.scores
    cdef entry *ranked
    cdef float best
    cdef int64_t i, j, n = 0
    for i in range(self.boxes):
        best = scores[0]
        for j in range(self.classes):
            if not go_on(run, 1):
                return
            if scores[j] > best or best != best:
                best = scores[j]
        if best >= self.score_threshold:
            at.candidates[n].score, at.candidates[n].position = rank_of(best), i
            n += 1
        scores += self.columns
    ranked = sorted_entries(at.candidates, at.candidates + self.boxes, n, run)
    n = take(self, at, ranked, n, self.detections, run)
    for i in range(n):
        tell_classes(self, at, ranked[i].position, i * self.told, run)
        if run.code != DOVETAIL_OK:
            return
    at.count[0] = <float>n


cdef void tell_classes(const detection_state *self, picture *at, int64_t i, int64_t place, errand *run) noexcept nogil:
    """Write box i with its best classes from a place on."""
    cdef const float *scores = at.scores + i * self.columns
    cdef entry *ranked
    cdef int64_t j
    for j in range(self.classes):
        if not go_on(run, 1):
            return
        at.pool[j].score, at.pool[j].position = rank_of(scores[j]), j
    ranked = sorted_entries(at.pool, at.pool + self.pool, self.classes, run)
    if run.code != DOVETAIL_OK:
        return
    for j in range(min(self.told, self.classes)):
        if not go_on(run, 1):
            return
        tell(at, place + j, i, ranked[j].position, scores[ranked[j].position])


cdef inline void tell(picture *at, int64_t place, int64_t i, int64_t which, float score) noexcept nogil:
    at.found[place], at.found_classes[place], at.found_scores[place] = at.boxes[i], <float>which, score


# -- each class for itself -------------------------------------------------------------------------


cdef void detect_by_class(const detection_state *self, picture *at, errand *run) noexcept nogil:
    cdef entry *best = at.pool
    cdef entry *spare = at.pool + self.pool
    cdef entry *ranked
    cdef int64_t which, i, n, kept = 0
    cdef float score
    for which in range(self.classes):
        n = 0
        for i in range(self.boxes):
            if not go_on(run, 1):
                return
            score = at.scores[i * self.columns + which]
            if score >= self.score_threshold:
                at.candidates[n].score, at.candidates[n].position = rank_of(score), i
                n += 1
        ranked = sorted_entries(at.candidates, at.candidates + self.boxes, n, run)
        n = take(self, at, ranked, n, self.per_class, run)
        for i in range(n):
            if not go_on(run, 1):
                return
            ranked[i].position = ranked[i].position * self.classes + which
        kept = merge(best, kept, ranked, n, spare, self.pool, run)
        best, spare = spare, best
        if run.code != DOVETAIL_OK:
            return
    for n in range(kept):
        if not go_on(run, 4):
            return
        i, which = best[n].position // self.classes, best[n].position % self.classes
        tell(at, n, i, which, at.scores[i * self.columns + which])
    at.count[0] = <float>kept


cdef int64_t merge(
    const entry *a, int64_t a_count, const entry *b, int64_t b_count, entry *merged, int64_t limit, errand *run
) noexcept nogil:
    """Merge two falling orders up to a limit, `a` first among equal entries; return the number."""
    cdef int64_t i = 0, j = 0
    while i + j < limit and (i < a_count or j < b_count):
        if not go_on(run, 1):
            return 0
        if i < a_count and (j >= b_count or a[i].score >= b[j].score):
            merged[i + j] = a[i]
            i += 1
        else:
            merged[i + j] = b[j]
            j += 1
    return i + j
