// Finds the header field to which each bit of a RoCE packet belongs. Also has a table of the counters that
// grew when a bit was flipped.
#pragma once

#include <array>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataplane/roce/headers.hpp"

namespace rdmc::fabric::testing {

enum class Field : std::uint8_t {
  opcode,
  solicited,
  migration,
  pad_count,
  version,
  membership,
  partition,
  notification,  // FECN, BECN and six reserved bits. Switches change them, so the ICRC does not cover them.
  destination,
  ack_request,
  reserved,
  psn,
  address,
  key,
  length,
  syndrome,
  msn,
  immediate,
  operand,  // The operand of an atomic.
  q_key,
  source_qp,
  payload,
  icrc
};

/// Returns the field of each bit of a datagram, in the order of the bits (IBTA vol. 1, chapter 9).
inline std::vector<Field> fields_of(const std::vector<std::byte>& datagram) {
  std::vector<Field> fields;
  const auto add = [&](Field field, std::size_t bits) { fields.insert(fields.end(), bits, field); };
  for (const auto& [field, bits] : {std::pair{Field::opcode, 8},
                                    {Field::solicited, 1},
                                    {Field::migration, 1},
                                    {Field::pad_count, 2},
                                    {Field::version, 4},
                                    {Field::membership, 1},
                                    {Field::partition, 15},
                                    {Field::notification, 8},
                                    {Field::destination, 24},
                                    {Field::ack_request, 1},
                                    {Field::reserved, 7},
                                    {Field::psn, 24}})
    add(field, static_cast<std::size_t>(bits));
  const auto opcode = static_cast<roce::Opcode>(datagram[0]);
  if (opcode == roce::Opcode::write_first || opcode == roce::Opcode::write_only ||
      opcode == roce::Opcode::write_only_immediate || opcode == roce::Opcode::read_request) {
    add(Field::address, 64);
    add(Field::key, 32);
    add(Field::length, 32);
  }
  if (roce::is_atomic(opcode)) {
    add(Field::address, 64);
    add(Field::key, 32);
    add(Field::operand, 128);
  }
  if (opcode == roce::Opcode::send_only_invalidate) add(Field::key, 32);
  if (opcode == roce::Opcode::send_only_immediate || opcode == roce::Opcode::write_only_immediate)
    add(Field::immediate, 32);
  if (roce::is_answer(opcode) && opcode != roce::Opcode::read_response_middle) {
    add(Field::syndrome, 8);
    add(Field::msn, 24);
  }
  if (opcode == static_cast<roce::Opcode>(0x64)) {
    add(Field::q_key, 32);
    add(Field::reserved, 8);
    add(Field::source_qp, 24);
  }
  add(Field::payload, (datagram.size() - roce::kIcrcBytes) * 8 - fields.size());
  add(Field::icrc, roce::kIcrcBytes * 8);
  return fields;
}

inline std::string_view name(Field field) {
  static constexpr std::array kNames{
      "opcode",        "solicited event", "migration",      "pad count",   "version",  "membership",
      "partition key", "FECN/BECN",       "destination QP", "ack request", "reserved", "PSN",
      "address",       "remote key",      "length",         "syndrome",    "MSN",      "immediate",
      "operand",       "Q_Key",           "source QP",      "payload",     "ICRC"};
  return kNames.at(static_cast<std::size_t>(field));
}

/// Counts for each field and each counter how many flipped bits made the counter grow, over all captured
/// packets.
class Table {
 public:
  void count(std::string_view field, const std::string& counter) { ++rows_[std::string(field)][counter]; }
  const std::map<std::string, std::map<std::string, int>>& rows() const { return rows_; }
  void print(std::string_view title) const {
    std::cout << title << "\n";
    for (const auto& [field, counters] : rows_) {
      std::cout << "  " << std::left << std::setw(18) << field;
      for (const auto& [counter, times] : counters) std::cout << counter << " " << times << "  ";
      std::cout << "\n";
    }
  }

 private:
  std::map<std::string, std::map<std::string, int>> rows_;
};

}  // namespace rdmc::fabric::testing
