#!/usr/bin/env bash
# build_llama.sh SOURCES FOLDER: llama.cpp's CPU library and the program llama_decode, without network.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
    -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF >"$2.log"
cmake --build "$2" --target llama >>"$2.log"
c++ -std=c++17 -O2 -I"$1/include" -I"$1/ggml/include" "$here/llama_decode.cpp" -o "$2/llama_decode" \
    "$2/src/libllama.a" "$2"/ggml/src/libggml.a "$2"/ggml/src/libggml-cpu.a \
    "$2"/ggml/src/libggml-base.a -fopenmp -lpthread -ldl
