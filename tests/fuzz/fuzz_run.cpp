// Fuzzes what a process of a run and rdmc_run send to each other, and the variables that a process reads.
// What is accepted must keep to the limits, and must mean the same after it is written and read again.
#include <algorithm>
#include <array>
#include <string>

#include "lib/replica/assignment.hpp"
#include "lib/replica/run_messages.hpp"
#include "tests/fuzz/input.hpp"

using namespace rdmc;
using namespace rdmc::fuzz;

namespace {

/// The first byte decides how many ranks the run has.
replica::Layout layout_in(fuzz::Bytes& bytes) {
  if (bytes.empty()) return {};
  const auto ranks = std::to_integer<std::uint32_t>(bytes.front()) % 8 + 1;
  bytes = bytes.subspan(1);
  return *replica::Layout::uniform(ranks, 2);
}

void join(fuzz::Bytes bytes) {
  const replica::Layout layout = layout_in(bytes);
  const auto read = replica::decode_join(bytes, layout);
  if (refused(read)) return;
  require(value_of(read->process) < layout.processes() && read->address.port != 0);
  require(replica::decode_join(replica::encode(*read), layout) == *read);
}

void from_process(fuzz::Bytes bytes) {
  const auto read = replica::decode_from_process(bytes);
  if (refused(read)) return;
  if (const auto* const abort = std::get_if<replica::Abort>(&*read))
    require(abort->code >= replica::kLeastAbortCode && abort->code <= replica::kMostAbortCode);
  require(replica::decode_from_process(replica::encode(*read)) == *read);
}

void to_process(fuzz::Bytes bytes) {
  const replica::Layout layout = layout_in(bytes);
  const auto read = replica::decode_to_process(bytes, layout);
  if (refused(read)) return;
  if (const auto* const started = std::get_if<replica::Started>(&*read))
    require(started->addresses.size() == layout.processes());
  require(replica::decode_to_process(replica::encode(*read), layout) == *read);
}

/// The lines of the input are the variables.
void variables(fuzz::Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  control::Variables variables;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto line = text.substr(at, end - at);
    const auto equals = std::min(line.find('='), line.size());
    variables.emplace(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
    at = end + 1;
  }
  const auto read = replica::assignment_of(variables);
  if (refused(read) || !*read) return;
  require((*read)->layout.contains((*read)->self));
  const auto written = replica::variables_of(**read);
  require(written.has_value());
  control::Variables again;
  for (const auto& [name, value] : *written) again.emplace(name, value);
  const auto same = replica::assignment_of(again);
  require(same.has_value() && *same == *read);
}

constexpr std::array kReaders{join, from_process, to_process, variables};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return read_by_first_byte(kReaders, data, size);
}
