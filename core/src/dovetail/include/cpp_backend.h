/* What every backend in C++17 behind the C table needs: objects behind `void *`, exceptions that
 * stay inside, options, artefacts that are checked.
 *
 *     static const dovetail::Options OPTIONS(
 *         "ACME_", {{"latency_us", 0, "time per command, in microseconds"}});
 *     ...
 *     dovetail::describe(table, "AcmeNpu", "0.1.0", DOVETAIL_BACKEND_DETERMINISTIC, OPTIONS);
 *     table->context_open = [](void *, int32_t, const dovetail_resources *,
 *                              const dovetail_attributes *given, void **context,
 *                              dovetail_answer *why) {
 *         return dovetail::guarded(
 *             why, [&] { *context = new Device(OPTIONS.number(given, "latency_us")); });
 *     };
 *     table->context_close = [](void *, void *context) { delete &dovetail::as<Device>(context); };
 */
#ifndef DOVETAIL_CPP_BACKEND_H
#define DOVETAIL_CPP_BACKEND_H

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "layer_view.h"

namespace dovetail {

/* The object behind a pointer that the core keeps. */
template <typename T> T &as(void *object) { return *static_cast<T *>(object); }

/* Fill in `why`; returns the status. */
inline int explain(dovetail_answer *why, int status, const std::string &code, const std::string &subject, const std::string &text)
{
    dovetail_refuse(why, code.c_str(), subject.c_str(), "%s", text.c_str());
    return status;
}

/* What a function under `guarded` throws in order to answer with a status and a reason. */
struct Refusal : std::runtime_error {
    Refusal(int status, std::string code, const std::string &text, std::string subject = "")
        : std::runtime_error(text), status(status), code(std::move(code)), subject(std::move(subject)) {}

    const int status;
    const std::string code, subject;
};

/* Call a function that returns a status, or nothing for DOVETAIL_OK; what it throws becomes an
 * answer. */
template <typename Body> int guarded(dovetail_answer *why, Body body)
{
    dovetail_answer ignored;
    why = why ? why : &ignored;
    try {
        if constexpr (std::is_void_v<decltype(body())>) {
            body();
            return DOVETAIL_OK;
        } else {
            return body();
        }
    } catch (const Refusal &refusal) {
        return explain(why, refusal.status, refusal.code, refusal.subject, refusal.what());
    } catch (const std::bad_alloc &) {
        return explain(why, DOVETAIL_OUT_OF_MEMORY, "memory", "", "the memory of the device, or of the host, does not suffice");
    } catch (const std::exception &error) {
        return explain(why, DOVETAIL_FAILED, "internal", "", error.what());
    } catch (...) {
        return explain(why, DOVETAIL_FAILED, "internal", "", "an exception of unknown type");
    }
}

/* Fill in a workload whose state is an object that the core's release deletes; the rest is zero,
 * for the caller to fill in. */
template <typename State> void describe(dovetail_workload *workload, State *state, dovetail_execute execute)
{
    *workload = dovetail_workload{};
    dovetail_begin_workload(workload);
    workload->state = state;
    workload->execute = execute;
    workload->release = [](void *object) { delete &as<State>(object); };
}

/* Whether a class has the functions with which a queue tells when its device works. */
template <typename Queue, typename = void> struct tells_spans : std::false_type {};
template <typename Queue> struct tells_spans<Queue, std::void_t<decltype(&Queue::span)>> : std::true_type {};
template <typename Queue, typename = void> struct has_clock : std::false_type {};
template <typename Queue> struct has_clock<Queue, std::void_t<decltype(&Queue::clock)>> : std::true_type {};

/* Fill in the queues of a context. A queue is made of the context's address, Queue(context), and
 * has wait(deadline), abort() and error(), which do what `dovetail_queues` says. It may have
 * profile(wanted) and span(index, span), and with them clock(device, host). */
template <typename Queue> void describe(dovetail_queues *queues, void *context)
{
    *queues = dovetail_queues{};
    queues->size = sizeof *queues;
    queues->abi_major = DOVETAIL_ABI_MAJOR;
    queues->abi_minor = DOVETAIL_ABI_MINOR;
    queues->state = context;
    queues->queue_create = [](void *state, int32_t, void **queue) {
        return guarded(nullptr, [&] { *queue = new Queue(state); });
    };
    queues->queue_wait = [](void *queue, int64_t deadline) {
        return guarded(nullptr, [&] { return static_cast<int>(as<Queue>(queue).wait(deadline)); });
    };
    queues->queue_abort = [](void *queue) { guarded(nullptr, [&] { as<Queue>(queue).abort(); }); };
    queues->queue_destroy = [](void *queue) { delete &as<Queue>(queue); };
    queues->queue_error = [](void *queue) { return static_cast<const char *>(as<Queue>(queue).error()); };
    if constexpr (tells_spans<Queue>::value) {
        queues->queue_profile = [](void *queue, int32_t wanted) {
            return guarded(nullptr, [&] { as<Queue>(queue).profile(wanted != 0); });
        };
        queues->queue_span = [](void *queue, int32_t index, dovetail_span *span) {
            return guarded(nullptr, [&] { return static_cast<int>(as<Queue>(queue).span(index, span)); });
        };
    }
    if constexpr (has_clock<Queue>::value) {
        queues->queue_clock = [](void *queue, int64_t *device, int64_t *host) {
            return guarded(nullptr, [&] { as<Queue>(queue).clock(device, host); });
        };
    }
}

/* What was compiled, behind the name and versions of who made it and a checksum: an artefact. */
class Artefact {
public:
    explicit Artefact(std::string made_by) : made_by(std::move(made_by)) {}

    std::string pack(const std::string &content) const
    {
        const std::string body = made_by + '\0' + content;
        const uint64_t sum = checksum(body.data(), body.size());
        return std::string(reinterpret_cast<const char *>(&sum), sizeof sum) + body;
    }

    /* DOVETAIL_ARTEFACT_OK, RECOMPILE if another version made it, UNUSABLE if it is damaged or
     * something else. */
    int check(const void *bytes, size_t count, dovetail_answer *why) const
    {
        const char *body = static_cast<const char *>(bytes) + sizeof(uint64_t);
        uint64_t sum;
        if (count <= sizeof sum) {
            return explain(why, DOVETAIL_ARTEFACT_UNUSABLE, "artefact", "", "it is too short");
        }
        std::memcpy(&sum, bytes, sizeof sum);
        if (sum != checksum(body, count - sizeof sum)) {
            return explain(why, DOVETAIL_ARTEFACT_UNUSABLE, "artefact", "", "it is damaged, or of another backend");
        }
        const std::string maker(body, strnlen(body, count - sizeof sum));
        return maker == made_by ? DOVETAIL_ARTEFACT_OK
                                : explain(why, DOVETAIL_ARTEFACT_RECOMPILE, "artefact", "",
                                          "it was made by " + maker + "; this is " + made_by);
    }

    /* The content of an artefact that `check` found good; throws Refusal for another. */
    std::string unpack(const void *bytes, size_t count) const
    {
        dovetail_answer why;
        if (check(bytes, count, &why) != DOVETAIL_ARTEFACT_OK) {
            throw Refusal(DOVETAIL_FAILED, why.code, why.text);
        }
        const size_t head = sizeof(uint64_t) + made_by.size() + 1;
        return {static_cast<const char *>(bytes) + head, count - head};
    }

private:
    static uint64_t checksum(const char *bytes, size_t count)     /* FNV-1a */
    {
        uint64_t hash = UINT64_C(14695981039346656037);
        for (size_t i = 0; i < count; i++) {
            hash = (hash ^ static_cast<uint8_t>(bytes[i])) * UINT64_C(1099511628211);
        }
        return hash;
    }

    const std::string made_by;
};

/* An option with its default: a number, or a text. */
struct Option {
    template <typename Number, typename = std::enable_if_t<std::is_integral_v<Number>>>
    Option(const char *name, Number number, const char *description) : name(name), number(number), description(description) {}
    Option(const char *name, const char *text, const char *description) : name(name), text(text), description(description) {}

    const char *name, *text = nullptr;
    int64_t number = 0;
    const char *description;
};

/* The options of a backend. An environment variable, the prefix and the name in capitals, wins over
 * what was given: so that a program need not be changed to be tested. */
class Options {
public:
    Options(std::string prefix, std::initializer_list<Option> options) : prefix(std::move(prefix)), options(options)
    {
        for (const Option &one : this->options) {
            dovetail_attribute value{};
            value.size = sizeof value;
            value.name = one.name;
            value.type = one.text ? DOVETAIL_ATTRIBUTE_STRING : DOVETAIL_ATTRIBUTE_INT;
            value.since = 1;
            value.count = 1;
            value.strings = one.text ? &one.text : nullptr;
            value.integers = one.text ? nullptr : &one.number;
            values.push_back(value);
            described.push_back({sizeof(dovetail_option), &values.back(), one.description});
            pointers.push_back(&described.back());
        }
    }
    Options(const Options &) = delete;

    const dovetail_option *const *list() const { return pointers.data(); }
    int32_t count() const { return static_cast<int32_t>(pointers.size()); }

    /* The value of an option as text; `given` may be NULL. Throws std::out_of_range if there is no
     * such option. */
    std::string text(const dovetail_attributes *given, const char *name) const
    {
        std::string variable = prefix + name;
        std::transform(variable.begin(), variable.end(), variable.begin(), [](unsigned char letter) { return std::toupper(letter); });
        if (const char *value = std::getenv(variable.c_str())) {
            return value;
        }
        if (const dovetail_attribute *one = given ? dovetail_attribute_named(given, name) : nullptr) {
            return one->strings ? one->strings[0] : std::to_string(one->integers[0]);
        }
        for (const Option &one : options) {
            if (std::strcmp(one.name, name) == 0) {
                return one.text ? one.text : std::to_string(one.number);
            }
        }
        throw std::out_of_range(std::string("there is no option ") + name);
    }

    /* The value of an option that is a number. Throws std::invalid_argument if an environment
     * variable says something else. */
    int64_t number(const dovetail_attributes *given, const char *name) const
    {
        const std::string value = text(given, name);
        char *end;
        const long long number = std::strtoll(value.c_str(), &end, 10);
        if (value.empty() || *end) {
            throw std::invalid_argument("option " + std::string(name) + " is '" + value + "', which is no whole number");
        }
        return number;
    }

private:
    const std::string prefix;
    const std::vector<Option> options;
    std::deque<dovetail_attribute> values;
    std::deque<dovetail_option> described;
    std::vector<const dovetail_option *> pointers;
};

/* Fill in a table with who the backend is, and one device; the rest is zero, for the caller to fill
 * in. */
inline void describe(dovetail_backend *table, const char *id, const char *version, uint32_t capabilities, const Options &options)
{
    *table = dovetail_backend{};
    dovetail_begin_backend(table, id, version);
    table->capabilities = capabilities;
    table->options = options.list();
    table->n_options = options.count();
}

}  // namespace dovetail

#endif
