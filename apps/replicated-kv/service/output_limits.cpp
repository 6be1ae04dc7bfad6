#include "apps/replicated-kv/service/output_limits.hpp"

#include <optional>
#include <vector>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/resp/request_parser.hpp"
#include "apps/replicated-kv/service/settings.hpp"

namespace rdmc::kv {

Result<void> OutputLimits::set(std::string_view text) {
  constexpr std::size_t kWordsOfClass = 4;
  std::vector<std::string> words;
  if (!split_line(text, words) || words.size() % kWordsOfClass != 0)
    return fail(Errc::invalid_argument, "Wrong number of arguments in buffer limit configuration.");
  OutputLimits changed = *this;
  for (std::size_t i = 0; i < words.size(); i += kWordsOfClass) {
    const std::string name = to_lower(words[i]);
    Class* const one = name == "normal"                       ? &changed.normal
                       : name == "slave" || name == "replica" ? &changed.replica
                       : name == "pubsub"                     ? &changed.pubsub
                                                              : nullptr;
    if (one == nullptr)
      return fail(Errc::invalid_argument, "Invalid client class specified in buffer limit configuration.");
    const auto hard = size_of(words[i + 1]), soft = size_of(words[i + 2]);
    const auto seconds = to_integer(words[i + 3]);
    const auto refuse = [](std::string_view which) {
      return fail(Errc::invalid_argument,
                  "Error in " + std::string(which) + " client output buffer limit configuration.");
    };
    if (!hard) return refuse("hard");
    if (!soft) return refuse("soft");
    if (!seconds || *seconds < 0 || *seconds > INT32_MAX) return refuse("soft_seconds");
    *one = {static_cast<std::size_t>(*hard), static_cast<std::size_t>(*soft), *seconds * 1000};
  }
  *this = changed;
  return {};
}

std::string OutputLimits::text() const {
  std::string text;
  const auto add = [&](std::string_view name, const Class& one) {
    if (!text.empty()) text += " ";
    text += std::string(name) + " " + std::to_string(one.hard) + " " + std::to_string(one.soft) + " " +
            std::to_string(one.patience / 1000);
  };
  add("normal", normal);
  add("slave", replica);
  add("pubsub", pubsub);
  return text;
}

}  // namespace rdmc::kv
