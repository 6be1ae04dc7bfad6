// All opcodes that the codec knows, in the order of their numbers. Some tests use all of them, others choose
// some.
#pragma once

#include <array>

#include "dataplane/roce/headers.hpp"

namespace rdmc::roce::testing {

inline constexpr std::array kOpcodes{Opcode::send_first,
                                     Opcode::send_middle,
                                     Opcode::send_last,
                                     Opcode::send_last_immediate,
                                     Opcode::send_only,
                                     Opcode::send_only_immediate,
                                     Opcode::write_first,
                                     Opcode::write_middle,
                                     Opcode::write_last,
                                     Opcode::write_last_immediate,
                                     Opcode::write_only,
                                     Opcode::write_only_immediate,
                                     Opcode::read_request,
                                     Opcode::read_response_first,
                                     Opcode::read_response_middle,
                                     Opcode::read_response_last,
                                     Opcode::read_response_only,
                                     Opcode::acknowledge,
                                     Opcode::atomic_acknowledge,
                                     Opcode::compare_swap,
                                     Opcode::fetch_add,
                                     Opcode::send_last_invalidate,
                                     Opcode::send_only_invalidate,
                                     Opcode::congestion_notification,
                                     Opcode::x_write,
                                     Opcode::x_write_last,
                                     Opcode::x_write_last_immediate,
                                     Opcode::x_acknowledge};

}  // namespace rdmc::roce::testing
