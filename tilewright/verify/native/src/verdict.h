// Why a simulation ends without a result: one line for the user.

#pragma once

#include <stdexcept>

struct Verdict : std::runtime_error {
    using std::runtime_error::runtime_error;
};
