// Milliseconds a token of a GGUF model under llama.cpp: MODEL THREADS BATCH CONTEXT TOKENS.
//
// CONTEXT tokens are decoded first, then TOKENS are timed one by one, BATCH sequences side by side;
// with each the most likely next token is chosen.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "llama.h"

int main(int argc, char **argv) {
    if (argc != 6) return std::fprintf(stderr, "MODEL THREADS BATCH CONTEXT TOKENS\n"), 2;
    const int threads = std::atoi(argv[2]), batch = std::atoi(argv[3]);
    const int context = std::atoi(argv[4]), tokens = std::atoi(argv[5]);
    llama_log_set([](ggml_log_level level, const char *text, void *) {
        if (level >= GGML_LOG_LEVEL_WARN) std::fputs(text, stderr);
    }, nullptr);
    llama_backend_init();
    llama_model_params model_params = llama_model_default_params();
    llama_model *model = llama_model_load_from_file(argv[1], model_params);
    if (!model) return 1;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = uint32_t(batch * (context + tokens + 8));
    params.n_seq_max = uint32_t(batch);
    params.n_threads = params.n_threads_batch = threads;
    llama_context *state = llama_init_from_model(model, params);
    if (!state) return 1;
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    llama_batch step = llama_batch_init(std::max(batch, 512), 0, 1);
    const auto add = [&](int position, int sequence, bool wanted) {
        const int i = step.n_tokens++;
        step.token[i] = 1 + (position * 7 + sequence) % 1000;
        step.pos[i] = position, step.n_seq_id[i] = 1, step.seq_id[i][0] = sequence;
        step.logits[i] = wanted;
    };
    for (int sequence = 0; sequence < batch; sequence++)
        for (int first = 0; first < context; first += 512) {
            step.n_tokens = 0;
            for (int i = first; i < std::min(context, first + 512); i++) add(i, sequence, false);
            if (llama_decode(state, step)) return 1;
        }
    std::vector<double> times;
    for (int i = 0; i < tokens; i++) {
        step.n_tokens = 0;
        for (int sequence = 0; sequence < batch; sequence++) add(context + i, sequence, true);
        const auto start = std::chrono::steady_clock::now();
        if (llama_decode(state, step)) return 1;
        for (int sequence = 0; sequence < batch; sequence++) {
            const float *logits = llama_get_logits_ith(state, sequence);
            volatile long chosen = std::max_element(logits, logits + vocabulary) - logits;
            (void)chosen;
        }
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        if (i >= 3) times.push_back(1e3 * taken.count());  // the first ones warm up
    }
    std::sort(times.begin(), times.end());
    std::printf("%.3f\n", times[times.size() / 2]);
}
