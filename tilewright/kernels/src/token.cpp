// One token of every sequence through all decoder layers in one call: a team of threads stays
// together from the first layer to the last.
//
// A layer has five meetings: after queries, keys and values, after attention, after its output,
// after gates and values, and after the way down. The small steps between them are done by every
// thread for itself where there are few sequences, since waiting for another thread takes as long.
// Who waits fetches what it will read next, so that memory has work all the time. Roundings are
// those of the layers one by one; attention is this file's own: scores and sums of values in fp32,
// the softmax in float64.

#include "barrier.h"
#include "multiply.h"
#include "step.h"

using namespace tilewright;

namespace {

constexpr int64_t kFewRows = 2;  // up to which every thread does norms and sums by itself
std::atomic<int64_t> fetch_bytes{131072};  // of the next product, by each thread that waits
constexpr int kLine = 64;

// All layers, one after the other.
struct Token {
    const Step *steps;
    int64_t count;
    const uint16_t *hidden, *cosines, *sines;
    uint16_t *result;
    int64_t position;
    double *spent;
};

// Memory of a call, kept for the next one.
struct Workspace {
    MultiplyTask tasks[kPlaces];
    std::vector<uint16_t> joined, mixed, part, inner, normed, sums[2];
    std::vector<uint16_t> own;  // of each thread, where it does small steps by itself
    Barrier barrier;
    Counter next_query;
};

// Lines that will be read soon, some at a time.
class Fetcher {
  public:
    void add(Range range) {
        if (range.first < range.last) ranges_[count_++] = range;
    }

    bool some() {
        constexpr int kAtOnce = 4;
        if (!count_) return false;
        Range &range = ranges_[count_ - 1];
        for (int k = 0; k < kAtOnce && range.first < range.last; k++, range.first += kLine)
            __builtin_prefetch(range.first, 0, 2);
        if (range.first >= range.last) count_--;
        return true;
    }

  private:
    Range ranges_[4];
    int count_ = 0;
};

class TokenTask final : public Task {
  public:
    TokenTask(const Token &token, Workspace &room) : t_(token), room_(room) {
        const Step &s = t_.steps[0];
        const int64_t count = s.rows * s.width;
        joined_ = room_for(room.joined, s.rows * s.heads() * s.dim);
        mixed_ = room_for(room.mixed, s.rows * s.queries * s.dim);
        part_ = room_for(room.part, count);
        inner_ = room_for(room.inner, s.rows * inputs_of(s.layers[kDown]));
        normed_ = room_for(room.normed, count);
        for (int k = 0; k < 2; k++) sums_[k] = room_for(room.sums[k], count);
        by_itself_ = s.rows <= kFewRows;
        const int64_t group = s.queries / s.keys, share = s.rows * s.queries / s.threads;
        together_ = 1;
        for (int64_t count = 2; count <= std::min(group, share); count++)
            if (group % count == 0) together_ = count;
        pitch_ = (count + kLine) / kLine * kLine;
        if (by_itself_) own_ = room_for(room.own, 3 * pitch_ * s.threads);
        room.next_query.value.store(0, std::memory_order_relaxed);
        for (Place place : {kQkv, kOut, kGateUp, kDown}) prepare(place, 0);
    }

    void run(int thread, int team) const override {
        Member m(*this, thread, team);
        for (int64_t k = 0; k < t_.count; k++) m.layer(k);
        m.finish();
    }

  private:
    // Nobody may be multiplying with a task while it is prepared for another layer.
    void prepare(Place place, int64_t k) const {
        if (k >= t_.count) return;
        const Step &s = t_.steps[k];
        const uint16_t *x[] = {normed_, mixed_, normed_, inner_};
        uint16_t *y[] = {joined_, part_, inner_, part_};
        const Product product = s.product(place, x[place], y[place]);
        room_.tasks[place].prepare(&product, 1, s.bounds[place], s.threads, Path(s.path),
                                   Order(s.orders[place]));
    }

    // One thread of the team.
    struct Member {
        const TokenTask &all;
        const int thread, team;
        Clock clock;
        const uint16_t *hidden;  // by itself: all of it; else rows of this thread's
        uint16_t *sums[2], *normed;
        std::vector<uint16_t> query, key;
        std::vector<float> scores;
        std::vector<double> powers;
        const Step *s = nullptr;

        Member(const TokenTask &task, int number, int size)
            : all(task), thread(number), team(size), clock(number ? nullptr : task.t_.spent),
              hidden(task.t_.hidden) {
            const Step &shape = task.t_.steps[0];
            query.resize(shape.dim), key.resize(shape.dim);
            scores.resize(task.t_.position + 1), powers.resize(task.t_.position + 1);
            uint16_t *const own = task.own_;
            uint16_t *const shared[] = {task.sums_[0], task.sums_[1], task.normed_};
            uint16_t *mine[3];
            for (int k = 0; k < 3; k++)
                mine[k] = own ? own + (3 * number + k) * task.pitch_ : shared[k];
            sums[0] = mine[0], sums[1] = mine[1], normed = mine[2];
        }

        void layer(int64_t k) {
            s = &all.t_.steps[k];
            if (k) add_part(0);
            norm(s->first_norm, s->first_epsilon);
            if (thread == 0 && k) all.prepare(kDown, k);
            multiply(kQkv);
            meet(kOut, nullptr, true);
            clock.end_of(kLinear);

            if (thread == 0) all.prepare(kQkv, k + 1);
            attend();
            meet(kOut, nullptr);
            clock.end_of(kAttention);

            if (thread == 0) all.room_.next_query.value.store(0, std::memory_order_relaxed);
            multiply(kOut);
            meet(kGateUp, s->second_norm);
            clock.end_of(kLinear);

            add_part(1);
            norm(s->second_norm, s->second_epsilon);
            if (thread == 0) all.prepare(kOut, k + 1);
            multiply(kGateUp);
            meet(kDown, nullptr);

            if (thread == 0) all.prepare(kGateUp, k + 1);
            multiply(kDown);
            meet(kQkv, k + 1 < all.t_.count ? s[1].first_norm : nullptr);
            clock.end_of(kLinear);
        }

        // The last sum, which is the result.
        void finish() {
            const int64_t width = s->width;
            if (all.by_itself_ && thread) return;
            for (int64_t row = all.by_itself_ ? 0 : thread; row < s->rows; row += step())
                bf16_add(hidden + row * width, all.part_ + row * width, all.t_.result + row * width,
                         width);
            clock.end_of(kSums);
        }

        // Rows from one of this thread's to the next.
        int64_t step() const { return all.by_itself_ ? 1 : team; }

        void add_part(int turn) {
            const int64_t width = s->width;
            for (int64_t row = all.by_itself_ ? 0 : thread; row < s->rows; row += step())
                bf16_add(hidden + row * width, all.part_ + row * width, sums[turn] + row * width,
                         width);
            hidden = sums[turn];
            clock.end_of(kSums);
        }

        void norm(const uint16_t *weight, float epsilon) {
            const int64_t width = s->width;
            for (int64_t row = all.by_itself_ ? 0 : thread; row < s->rows; row += step())
                bf16_norm(hidden + row * width, weight, normed + row * width, width, epsilon);
            if (!all.by_itself_) all.room_.barrier.meet(team, [] { return false; });
            clock.end_of(kNorms);
        }

        void multiply(Place place) const {
            const bool own = all.by_itself_ && (place == kQkv || place == kGateUp);
            all.room_.tasks[place].run_with(
                thread, team, own ? reinterpret_cast<const uint8_t *>(normed) : nullptr);
        }

        // Waits for the others, and fetches what comes next meanwhile: weights of the next product,
        // and before it those of a norm, or keys and values of the first queries of this thread.
        void meet(Place next, const uint16_t *norm_weight, bool attention = false) {
            Fetcher fetcher;
            Range ranges[2];
            all.room_.tasks[next].first_reads(thread, fetch_bytes.load(std::memory_order_relaxed),
                                              ranges);
            for (const Range &range : ranges) fetcher.add(range);
            const auto add = [&](const uint16_t *from, int64_t count) {
                const char *first = reinterpret_cast<const char *>(from);
                fetcher.add({first, first + 2 * count});
            };
            if (norm_weight && all.by_itself_) add(norm_weight, s->width);
            const int64_t query = thread * all.together_;
            if (attention && query < s->rows * s->queries)
                for (const uint16_t *room : {s->value_room, s->key_room})
                    add(room + place_of(query), all.t_.position * s->dim);
            all.room_.barrier.meet(team, [&] { return fetcher.some(); });
        }

        // Of the first key and value of a query's head.
        int64_t place_of(int64_t part) const {
            const int64_t row = part / s->queries, query = part % s->queries;
            return (row * s->keys + query / (s->queries / s->keys)) * s->room * s->dim;
        }

        // Every query attends to the tokens of its head by itself. Queries of the same head go to
        // the same thread as far as there are enough for all, since they read the same.
        void attend() {
            int64_t first;
            std::atomic<int64_t> &next = all.room_.next_query.value;
            while ((first = next.fetch_add(all.together_, std::memory_order_relaxed)) <
                   s->rows * s->queries)
                for (int64_t part = first; part < first + all.together_; part++) attend_one(part);
        }

        void attend_one(int64_t part) {
            const int64_t row = part / s->queries, dim = s->dim, group = s->queries / s->keys;
            const int64_t head = part % s->queries / group, before = all.t_.position;
            const uint16_t *cosines = all.t_.cosines + row * dim, *sines = all.t_.sines + row * dim;
            const uint16_t *heads = all.joined_ + row * s->heads() * dim;
            const uint16_t *value = heads + (s->queries + s->keys + head) * dim;
            uint16_t *keys = s->key_room + place_of(part), *values = s->value_room + place_of(part);
            bf16_turn(heads + part % s->queries * dim, cosines, sines, dim, query.data());
            bf16_turn(heads + (s->queries + head) * dim, cosines, sines, dim, key.data());
            if (part % group == 0) {  // one of those that need the new key and value stores them
                std::memcpy(keys + before * dim, key.data(), 2 * dim);
                std::memcpy(values + before * dim, value, 2 * dim);
            }
            bf16_dots(query.data(), keys, before, dim, scores.data());
            bf16_dots(query.data(), key.data(), 1, dim, scores.data() + before);
            softmax();
            bf16_mix(scores.data(), values, before, value, dim, all.mixed_ + part * dim);
        }

        void softmax() {
            MostKernel largest = portable::largest;
            PowerKernel power = portable::powers;
#if TILEWRIGHT_X86
            if (has(kAvx512)) largest = avx512::largest, power = avx512::powers;
#endif
            const int64_t tokens = int64_t(scores.size());
            double sums_of[8] = {}, total = 0;
            power(scores.data(), tokens, largest(scores.data(), tokens, scores[0]), s->scale,
                  powers.data(), sums_of);
            for (double sum : sums_of) total += sum;
            for (int64_t i = 0; i < tokens; i++) scores[i] = float(powers[i] / total);
        }
    };

    const Token &t_;
    Workspace &room_;
    uint16_t *joined_, *mixed_, *part_, *inner_, *normed_, *sums_[2], *own_ = nullptr;
    int64_t pitch_, together_;  // room of a thread; queries that it takes at once
    bool by_itself_;
};

}  // namespace

// For trials: how much of the next product's weights a thread fetches while it waits.
extern "C" void tw_set_fetch_bytes(int64_t bytes) { fetch_bytes = bytes; }

// A token of every sequence through all layers; all have the same shape.
extern "C" void tw_token(const Token *token) {
    static thread_local Workspace room;
    run_in_pool(token->steps[0].threads, TokenTask(*token, room));
}
