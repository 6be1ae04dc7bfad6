#include "dataplane/sim/trace.hpp"

#include <xxhash.h>

namespace rdmc::sim {

void Trace::StateDeleter::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

Trace::Trace() : state_(XXH3_createState()) {
  XXH3_64bits_reset(state_.get());
}
Trace::~Trace() = default;

void Trace::flush() {
  XXH3_64bits_update(state_.get(), events_.data(), used_ * sizeof(Event));
  used_ = 0;
}

std::uint64_t Trace::hash() {
  flush();
  return XXH3_64bits_digest(state_.get());
}

std::string hash_string(std::uint64_t hash) {
  std::string text(16, '0');
  for (std::size_t i = 0; i < text.size(); ++i)
    text[text.size() - 1 - i] = "0123456789abcdef"[hash >> 4 * i & 15];
  return text;
}

std::uint64_t digest(const void* bytes, std::size_t size) {
  return XXH3_64bits(bytes, size);
}

}  // namespace rdmc::sim
