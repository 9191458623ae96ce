// A Verilated accelerator with its external memory and its host, for whole programs.
//
//     sim MEMORY [OPTION=VALUE]... PROGRAM...
//
// MEMORY is a file, changed in place. A PROGRAM is stream=LINE, in the memory, or words=FILE, 16
// bytes an instruction; they run one after the other without a reset. Standard output has one JSON
// object; a verdict in it says why there is no result. With show=1, standard error has the number
// of cycles so far, once a second.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "Vtop.h"
#include "host.h"
#include "machine.h"
#include "memory.h"
#include "verilated.h"

namespace {

struct Options {
    MemoryOptions memory;
    Limits limits;
    uint64_t seed = 1;
    bool show = false;
    std::string watchdog;  // of the accelerator; empty: as after a reset
    std::vector<std::pair<std::string, std::string>> programs;
};

std::vector<int64_t> read_numbers(const std::string& text) {
    std::vector<int64_t> numbers;
    std::stringstream stream(text);
    for (std::string one; std::getline(stream, one, ',');) numbers.push_back(std::stoll(one));
    return numbers;
}

std::set<uint64_t> read_lines(const std::string& text) {
    const auto numbers = read_numbers(text);
    return {numbers.begin(), numbers.end()};
}

Options read_options(int argc, char** argv) {
    Options o;
    for (int k = 2; k < argc; ++k) {
        const std::string word = argv[k];
        const auto equals = word.find('=');
        const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
        if (name == "stream" || name == "words") o.programs.emplace_back(name, value);
        else if (name == "latency") o.memory.latency = std::stoull(value);
        else if (name == "rate") o.memory.rate = std::stoull(value);
        else if (name == "rate_of") o.memory.rate_of = std::stoull(value);
        else if (name == "stall") o.memory.stall = std::stod(value);
        else if (name == "most_late") o.memory.most_late = std::stoull(value);
        else if (name == "bad_lines") o.memory.bad_lines = read_lines(value);
        else if (name == "lost_lines") o.memory.lost_lines = read_lines(value);
        else if (name == "dram") o.memory.dram = read_numbers(value);
        else if (name == "limit") o.limits.cycles = std::stoull(value);
        else if (name == "patience") o.limits.patience = std::stoull(value);
        else if (name == "watchdog") o.watchdog = value;
        else if (name == "seed") o.seed = std::stoull(value);
        else if (name == "show") o.show = value != "0";
        else throw Verdict("unknown option " + name);
    }
    return o;
}

// A file as memory, shared with whoever else has it open.
struct Image {
    uint8_t* bytes = nullptr;
    uint64_t size = 0;

    explicit Image(const char* path) {
        const int file = open(path, O_RDWR);
        struct stat status {};
        if (file < 0 || fstat(file, &status)) throw Verdict(std::string(path) + " does not open");
        size = static_cast<uint64_t>(status.st_size);
        void* place = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (place == MAP_FAILED) throw Verdict(std::string(path) + " cannot be mapped");
        bytes = static_cast<uint8_t*>(place);
    }
    ~Image() { munmap(bytes, size); }
    Image(const Image&) = delete;
    Image& operator=(const Image&) = delete;
};

std::vector<uint64_t> read_words(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw Verdict(path + " does not open");
    std::vector<uint64_t> halves;
    for (uint64_t half; file.read(reinterpret_cast<char*>(&half), sizeof half);)
        halves.push_back(half);
    return halves;
}

std::string json_of(const Ending& e) {
    std::ostringstream text;
    text << "{\"error\": " << e.error << ", \"instruction\": " << e.instruction
         << ", \"events\": " << e.events << ", \"counters\": [";
    for (size_t k = 0; k < e.counters.size(); ++k) text << (k ? ", " : "") << e.counters[k];
    return text.str() + "]}";
}

void simulate(const char* path, const Options& o, std::string& endings, uint64_t& cycles) {
    Image image(path);
    const auto context = std::make_unique<VerilatedContext>();
    const auto top = std::make_unique<Vtop>(context.get());
    Ports ports(*top);
    Chance chance(o.seed);
    Memory memory(ports, image.bytes, image.size / LINE_BYTES, o.memory, chance);
    Clock clock(*top, ports, memory, chance, o.memory.stall, o.show);
    Host host(clock, o.limits);
    clock.reset();
    try {
        if (!o.watchdog.empty()) host.write(LIMIT, std::stoull(o.watchdog));
        for (const auto& [kind, value] : o.programs) {
            const Ending ending = kind == "stream" ? host.run_stream(std::stoull(value))
                                                   : host.run_words(read_words(value));
            endings += (endings.empty() ? "" : ", ") + json_of(ending);
        }
    } catch (const Verdict&) {
        cycles = clock.cycle();
        throw;
    }
    cycles = clock.cycle();
    top->final();
}

}  // namespace

int main(int argc, char** argv) {
    const auto start = std::chrono::steady_clock::now();
    std::string endings, verdict = "null";
    uint64_t cycles = 0;
    try {
        if (argc < 2) throw Verdict("usage: sim MEMORY [OPTION=VALUE]... PROGRAM...");
        simulate(argv[1], read_options(argc, argv), endings, cycles);
    } catch (const Verdict& problem) {
        verdict = "\"" + std::string(problem.what()) + "\"";
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("{\"programs\": [%s], \"cycles\": %llu, \"seconds\": %.3f, \"verdict\": %s}\n",
                endings.c_str(), static_cast<unsigned long long>(cycles), seconds.count(),
                verdict.c_str());
    return 0;
}
