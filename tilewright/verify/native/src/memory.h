// The external memory behind all channels and behind the port of instructions.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dram.h"
#include "machine.h"
#include "stream.h"
#include "verdict.h"

// How the memory answers.
struct MemoryOptions {
    uint64_t latency = 1;            // cycles from a request, or a line written, to its answer
    uint64_t rate = 1, rate_of = 1;  // every channel offers lines in `rate` of `rate_of` cycles
    double stall = 0;      // probability that a side waits; answers are then late, in any order
    uint64_t most_late = 0;          // cycles more than the latency, at random
    std::set<uint64_t> bad_lines;    // answered with an error, as lines beyond the memory are
    std::set<uint64_t> lost_lines;   // never answered
    std::vector<int64_t> dram;       // fields of Dram, which then decides about lines; or none
};

// Where the parts of an answered line are.
struct AnswerFields {
    Field tag, error, data;
};
constexpr AnswerFields LINE_ANSWER{RESPONSE_TAG, RESPONSE_ERROR, RESPONSE_DATA};
constexpr AnswerFields CODE_ANSWER{CODE_RESPONSE_TAG, CODE_RESPONSE_ERROR, CODE_RESPONSE_DATA};

class Memory {
public:
    Memory(Ports& ports, uint8_t* bytes, uint64_t lines, const MemoryOptions& options,
           Chance& chance)
        : bytes_(bytes), lines_(lines), options_(options), chance_(chance) {
        const bool any_order = options.stall > 0;
        for (int c = 0; c < CHANNELS; ++c)
            channels_.push_back({
                {ports.request[c], options.stall, chance},
                {ports.response[c], any_order, chance},
                {ports.write[c], options.stall, chance},
                {ports.written[c], any_order, chance},
                std::vector<bool>(1 << RESPONSE_TAG.bits),
            });
        code_ = std::make_unique<Code>(Code{
            {ports.code_request, options.stall, chance},
            {ports.code_response, any_order, chance},
            std::vector<bool>(1 << CODE_RESPONSE_TAG.bits),
        });
    }

    // A program starts in `cycle`: its memory is as after a reset.
    void begin(uint64_t cycle) {
        begun_ = cycle + START;
        dram_.clear();
        if (options_.dram.empty()) return;
        Dram dram;
        static_assert(sizeof dram == 26 * sizeof(int64_t), "a field for every number");
        std::copy_n(options_.dram.begin(), 26, reinterpret_cast<int64_t*>(&dram));
        dram_.assign(CHANNELS, DramChannel(dram, LINE_BYTES));
    }

    // Takes what the accelerator asks for at the end of `cycle`; whether anything moved, or waits
    // for its time. Answers that were taken free their tags first.
    bool sample(uint64_t cycle) {
        bool moved = false;
        for (Channel& c : channels_) {
            moved |= !c.response.idle() || !c.written.idle();
            c.written.sample();
            if (const auto* word = c.response.sample()) c.tags[get(*word, RESPONSE_TAG)] = false;
        }
        moved |= !code_->response.idle();
        if (const auto* word = code_->response.sample())
            code_->tags[get(*word, CODE_RESPONSE_TAG)] = false;
        for (int k = 0; k < CHANNELS; ++k) {
            Channel& c = channels_[k];
            if (const auto* word = c.request.sample()) {
                const uint64_t own = get(*word, REQUEST_LINE), line = own * CHANNELS + k;
                moved = true;
                const uint64_t when = dram_.empty() ? due(cycle)
                    : begun_ + dram_[k].read(cycle - begun_, own);
                answer(c.response, c.tags, LINE_ANSWER, line, get(*word, REQUEST_TAG), cycle, when);
            }
            if (const auto* word = c.write.sample()) {
                moved = true;
                const uint64_t own = get(*word, WRITE_LINE);
                const uint64_t when = dram_.empty() ? due(cycle)
                    : begun_ + dram_[k].write(cycle - begun_, own);
                store(c, own * CHANNELS + k, *word, when);
            }
        }
        if (const auto* word = code_->request.sample()) {
            moved = true;
            answer(code_->response, code_->tags, CODE_ANSWER, get(*word, CODE_REQUEST_LINE),
                   get(*word, CODE_REQUEST_TAG), cycle, due(cycle));
        }
        return moved;
    }

    // Offers answers in `cycle`, the one that begins.
    void drive(uint64_t cycle) {
        const uint64_t n = options_.rate, of = options_.rate_of;
        const bool lines_come = cycle * n / of > (cycle - 1) * n / of;
        for (Channel& c : channels_) {
            c.request.drive();
            c.write.drive();
            c.response.drive(cycle, lines_come);
            c.written.drive(cycle, !chance_.happens(options_.stall));
        }
        code_->request.drive();
        code_->response.drive(cycle);
    }

private:
    struct Channel {
        Sink<RequestPayload> request;
        Source<ResponsePayload> response;
        Sink<WritePayload> write;
        Source<WrittenPayload> written;
        std::vector<bool> tags;  // those that wait for an answer
    };
    struct Code {
        Sink<CodeRequestPayload> request;
        Source<CodeResponsePayload> response;
        std::vector<bool> tags;
    };

    uint64_t due(uint64_t cycle) {
        const uint64_t late = options_.most_late ? chance_.below(options_.most_late + 1) : 0;
        return cycle + options_.latency + late;
    }

    bool is_bad(uint64_t line) const { return line >= lines_ || options_.bad_lines.count(line); }

    // The line as it is now is what will be answered, whatever is written meanwhile.
    template <class Payload>
    void answer(Source<Payload>& to, std::vector<bool>& tags, const AnswerFields& fields,
                uint64_t line, uint64_t tag, uint64_t cycle, uint64_t when) {
        if (tags[tag])
            throw Verdict("cycle " + std::to_string(cycle) + ": tag " + std::to_string(tag) +
                          " asks again before its answer");
        tags[tag] = true;
        if (options_.lost_lines.count(line)) return;
        Payload word{};
        put(word, fields.tag, tag);
        put(word, fields.error, is_bad(line));
        if (!is_bad(line)) put_bytes(word, fields.data, bytes_ + line * LINE_BYTES);
        to.send(word, when);
    }

    void store(Channel& c, uint64_t line, const WritePayload& word, uint64_t when) {
        if (options_.lost_lines.count(line)) return;
        if (!is_bad(line)) get_bytes(word, WRITE_DATA, bytes_ + line * LINE_BYTES);
        WrittenPayload answer{};
        put(answer, WRITTEN_ERROR, is_bad(line));
        c.written.send(answer, when);
    }

    uint8_t* bytes_;
    uint64_t lines_;
    MemoryOptions options_;
    Chance& chance_;
    std::vector<Channel> channels_;
    std::unique_ptr<Code> code_;
    std::vector<DramChannel> dram_;
    uint64_t begun_ = 0;  // the first cycle of the program, as its cycle model counts
    static constexpr uint64_t START = 2;  // cycles from the write that starts a program
};
