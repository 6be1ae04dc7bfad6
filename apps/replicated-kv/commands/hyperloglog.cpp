// PFADD, PFCOUNT and PFMERGE.
#include <array>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/data/hyperloglog.hpp"

namespace rdmc::kv {

namespace {

/// The longest sparse sketch. Redis has a parameter for it; here it is the same at all servers.
constexpr std::size_t kMostSparseBytes = 3000;

/// Reads the sketch of a key, which is empty if the key is missing. Returns nullopt after an error reply.
std::optional<HyperLogLog> find_sketch(Call& call, std::string_view key) {
  Text* text = nullptr;
  if (!find_text(call, key, text)) return std::nullopt;
  if (text == nullptr) return HyperLogLog();
  auto sketch = HyperLogLog::read(*text);
  if (!sketch)
    call.reply.error(HyperLogLog::has_head(*text) ? "INVALIDOBJ Corrupted HLL object detected"
                                                  : "WRONGTYPE Key is not a valid HyperLogLog string value.");
  return sketch;
}

void set_sketch(Call& call, std::string_view key, const HyperLogLog& sketch) {
  set_text(call, key, sketch.write(kMostSparseBytes), true);
  call.find(key)->value.has_grown = true;
}

void sketch_add(Call& call) {
  Text* text = nullptr;
  if (!find_text(call, call.words[1], text)) return;
  std::vector<HyperLogLog::Mark> marks;
  for (const std::string_view element : call.words.subspan(2)) {
    const auto mark = HyperLogLog::mark_of(element);
    // Most elements change nothing in a sketch that has seen many others.
    const bool may_look = text != nullptr && HyperLogLog::has_head(*text);
    const auto known = may_look ? HyperLogLog::register_in(*text, mark.index) : std::nullopt;
    if (known && *known >= mark.rank) continue;
    if (known && HyperLogLog::is_dense(*text)) HyperLogLog::set_register(text->data(), mark);
    marks.push_back(mark);
  }
  const bool has_changed = text == nullptr || !marks.empty();
  if (has_changed && (text == nullptr || !HyperLogLog::has_head(*text) || !HyperLogLog::is_dense(*text))) {
    auto sketch = find_sketch(call, call.words[1]);
    if (!sketch) return;
    for (const auto& mark : marks) sketch->add(mark);
    set_sketch(call, call.words[1], *sketch);
  } else if (has_changed) {
    call.changed(call.words[1]);
  } else if (!find_sketch(call, call.words[1])) {
    return;
  }
  call.reply.integer(has_changed ? 1 : 0);
}

/// The union of the sketches of keys.
std::optional<HyperLogLog> union_of_sketches(Call& call, Arguments keys) {
  std::optional<HyperLogLog> all = HyperLogLog();
  for (const std::string_view key : keys) {
    const auto sketch = find_sketch(call, key);
    if (!sketch) return std::nullopt;
    all->merge(*sketch);
  }
  return all;
}

void sketch_count(Call& call) {
  const auto sketch = union_of_sketches(call, call.words.subspan(1));
  if (sketch) call.reply.integer(static_cast<std::int64_t>(sketch->count()));
}

/// The target is one of the sources.
void sketch_merge(Call& call) {
  const auto sketch = union_of_sketches(call, call.words.subspan(1));
  if (!sketch) return;
  set_sketch(call, call.words[1], *sketch);
  call.reply.ok();
}

using namespace flag;
constexpr std::array kSketchCommands = {
    Command{"pfadd", -2, kWrite | kGrows | kFast, 1, 1, 1, sketch_add},
    Command{"pfcount", -2, kRead, 1, -1, 1, sketch_count},
    Command{"pfmerge", -2, kWrite | kGrows, 1, -1, 1, sketch_merge},
};

}  // namespace

std::span<const Command> hyperloglog_commands() {
  return kSketchCommands;
}

}  // namespace rdmc::kv
