// Software prefetch of a stream that is read front to back.
#pragma once

#include <immintrin.h>

#include <cstdint>

#ifndef TILEWRIGHT_PREFETCH_BYTES
#define TILEWRIGHT_PREFETCH_BYTES 4096
#endif
#ifndef TILEWRIGHT_PREFETCH_HINT
#define TILEWRIGHT_PREFETCH_HINT _MM_HINT_T0
#endif

namespace tilewright {

// Keeps `kAhead` bytes of a stream on their way. Lines behind its end are asked for too, which
// never faults.
class Prefetcher {
  public:
    static constexpr uintptr_t kAhead = TILEWRIGHT_PREFETCH_BYTES;

    explicit Prefetcher(const void *start) : next_(reinterpret_cast<uintptr_t>(start)) {
        follow(start);
    }

    void follow(const void *position) {
        const uintptr_t until = reinterpret_cast<uintptr_t>(position) + kAhead;
        for (; next_ < until; next_ += 64) ask(reinterpret_cast<const char *>(next_));
    }

    // Always inlined: compilers find that a function which only prefetches has no effect, and leave
    // out calls of it.
    [[gnu::always_inline]] static void ask(const char *line) {
        _mm_prefetch(line, TILEWRIGHT_PREFETCH_HINT);
    }

  private:
    uintptr_t next_;
};

}  // namespace tilewright
