// Timing of DRAM behind a channel of the port: that of tilewright.golden.machine.dram, name by name.

#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

// Times are clocks of the DRAM, in the order in which Python gives them.
struct Dram {
    int64_t period, halves, burst_bytes, groups, banks, row_bytes, ccd_s, ccd_l, cl, cwl, rcd, rp,
        ras, rrd_s, rrd_l, faw, rtp, wr, wtr, refi, rfc, path, window, batch, rtw;
    int64_t clock;  // of the accelerator, in Hz
};

inline int64_t ceil_of(int64_t number, int64_t by) { return (number + by - 1) / by; }

class PseudoChannel {
public:
    PseudoChannel(const Dram& d, int64_t line_bytes)
        : d_(d),
          bursts_(line_bytes / d.burst_bytes),
          together_(std::min(d.groups, bursts_)),
          ccd_(std::max(d.ccd_s, ceil_of(d.ccd_l, together_))),
          rrd_(std::max(d.rrd_s, ceil_of(d.rrd_l, together_))),
          sets_(d.groups / together_),
          row_lines_(together_ * d.row_bytes / line_bytes),
          rtw_(d.rtw ? d.rtw : d.cl + d.ccd_s + 2 - d.cwl),
          banks_(sets_ * d.banks, {-1, -d.rp, 0}),
          acts_(4, -d.faw),
          columns_(d.window, 0),
          due_(d.refi) {}

    int64_t transfer(int64_t at, int64_t place, bool write) {
        const int64_t seen = std::max(at, columns_.front()), now = std::max(at, columns_.back());
        if (now >= due_) refresh(now);
        const int64_t group = place % sets_, rest = place / sets_ / row_lines_;
        const int64_t row = rest / d_.banks;
        Bank& bank = banks_[rest % d_.banks + group * d_.banks];
        if (bank.row != row) open(bank, row, seen);
        const int64_t first = std::max({at, bank.opened, bus_[write]});
        const int64_t last = first + (bursts_ - 1) * ccd_;
        push(columns_, first);
        bus_[write] = last + ccd_;
        const int64_t end = last + d_.cwl + d_.ccd_s;
        bus_[!write] = write ? end + d_.wtr : last + rtw_;
        bank.closable = std::max(bank.closable, write ? end + d_.wr : last + d_.rtp);
        return last;
    }

private:
    struct Bank {
        int64_t row, closable, opened;
    };

    static void push(std::deque<int64_t>& times, int64_t time) {
        times.pop_front();
        times.push_back(time);
    }

    void open(Bank& bank, int64_t row, int64_t seen) {
        const int64_t closed = bank.row < 0 ? bank.closable : std::max(seen, bank.closable);
        int64_t act = std::max(seen, closed + d_.rp), ready = 0;
        for (int64_t k = 0; k < together_; ++k) {
            act = std::max({act, acts_.back() + rrd_, acts_.front() + d_.faw});
            push(acts_, act);
            ready = std::max(ready, act + d_.rcd - k * ccd_);
        }
        bank = {row, act + d_.ras, ready};
    }

    void refresh(int64_t now) {
        due_ += (now - due_) / d_.refi * d_.refi;
        int64_t end = due_;
        for (const Bank& bank : banks_)
            if (bank.row >= 0) end = std::max(end, bank.closable);
        end += d_.rp + d_.rfc;
        for (Bank& bank : banks_) bank = {-1, end - d_.rp, bank.opened};
        due_ += d_.refi;
    }

    Dram d_;
    int64_t bursts_, together_, ccd_, rrd_, sets_, row_lines_, rtw_;
    std::vector<Bank> banks_;
    std::deque<int64_t> acts_, columns_;
    int64_t bus_[2] = {0, 0};
    int64_t due_;
};

class DramChannel {
public:
    DramChannel(const Dram& d, int64_t line_bytes)
        : d_(d),
          path_(ceil_of(d.path * d.clock, SECOND)),
          halves_(d.halves, {PseudoChannel(d, line_bytes), 0, {}}) {}

    int64_t read(int64_t cycle, int64_t line) {
        Half& half = halves_[line % d_.halves];
        const int64_t last = half.banks.transfer(clocks(cycle), line / d_.halves, false);
        return answered_ = std::max(answered_ + 1, cycles(last + d_.cl + d_.ccd_s));
    }

    int64_t write(int64_t cycle, int64_t line) {
        Half& half = halves_[line % d_.halves];
        const int64_t now = clocks(cycle), taken = std::max(now, half.full);
        half.waiting.push_back(line / d_.halves);
        if (static_cast<int64_t>(half.waiting.size()) == d_.batch) {
            for (int64_t place : half.waiting) half.full = half.banks.transfer(now, place, true);
            half.waiting.clear();
        }
        return acknowledged_ = std::max(acknowledged_ + 1, cycles(taken));
    }

private:
    static constexpr int64_t SECOND = 1'000'000'000'000;  // in picoseconds
    struct Half {
        PseudoChannel banks;
        int64_t full;
        std::vector<int64_t> waiting;
    };

    int64_t clocks(int64_t cycle) const {
        const __int128 time = static_cast<__int128>(cycle) * SECOND, by = d_.clock * d_.period;
        return static_cast<int64_t>((time + by - 1) / by);
    }
    int64_t cycles(int64_t clocks) const {
        const __int128 time = static_cast<__int128>(clocks) * d_.period * d_.clock;
        return path_ + static_cast<int64_t>((time + SECOND - 1) / SECOND);
    }

    Dram d_;
    int64_t path_, answered_ = 0, acknowledged_ = 0;
    std::vector<Half> halves_;
};
