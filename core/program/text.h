#pragma once
#include <string>

#include "core/program/program.h"

namespace trainyard {

// Pieces of to_text(), for messages and graphs.
std::string pass_text(const Pass& pass);  // "F3.0": micro-batch, chunk
std::string buffer_text(const Program& program,
                        std::uint32_t buffer);                      // "qkv#12", views "qkv#12:1"
std::string what_text(const Program& program, const Instr& instr);  // op and its subject

}  // namespace trainyard
