#include "controlplane/store/etcd_codec.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "controlplane/view/messages.hpp"

namespace rdmc::store {
namespace {

using nlohmann::json;

std::string to_base64(std::span<const std::byte> bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

std::string to_base64(std::string_view text) {
  return to_base64(std::as_bytes(std::span(text)));
}

std::optional<std::string> from_base64(const std::string& text) {
  std::string bytes(text.size() / 4 * 3 + 1, '\0');
  if (text.size() % 4 != 0) return std::nullopt;
  const int length =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (length < 0) return std::nullopt;
  const auto padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(static_cast<std::size_t>(length - padding));
  return bytes;
}

std::unexpected<Error> nonsense() {
  return fail(Errc::protocol_error, "the answer is not etcd's");
}

const json* member(const json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? nullptr : &*found;
}

/// Parses a 64-bit number. etcd's JSON contains such a number as a string.
std::optional<std::int64_t> number(const json* value) {
  if (value == nullptr || !value->is_string()) return std::nullopt;
  const auto& text = value->get_ref<const std::string&>();
  std::int64_t result = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return result;
}

std::optional<std::string> bytes(const json* value) {
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return from_base64(value->get_ref<const std::string&>());
}

Result<EtcdEntry> parse_entry(const json& kv) {
  const auto key = bytes(member(kv, "key")), value = bytes(member(kv, "value"));
  const auto revision = number(member(kv, "mod_revision"));
  if (!key || !value || !revision) return nonsense();
  auto view = view::decode_view(std::as_bytes(std::span(*value)));
  if (!view) return fail(Errc::corrupt, "what stands under " + *key + " is no view");
  return EtcdEntry{*key, std::move(*view), *revision};
}

/// Parses the member "kvs" of the answer to a range request. etcd leaves out this member if there are no
/// keys.
Result<std::vector<EtcdEntry>> parse_entries(const json& range) {
  std::vector<EtcdEntry> entries;
  if (!range.is_object()) return nonsense();
  const json* const kvs = member(range, "kvs");
  if (kvs == nullptr) return entries;
  if (!kvs->is_array()) return nonsense();
  for (const json& kv : *kvs) {
    auto entry = parse_entry(kv);
    if (!entry) return std::unexpected(entry.error());
    entries.push_back(std::move(*entry));
  }
  return entries;
}

/// Parses an answer. Every answer of etcd has a header with a revision. If this header is missing, the answer
/// is not from etcd, and the result is nullopt.
std::optional<json> parse(std::string_view answer) {
  json parsed = json::parse(answer, nullptr, false);
  const json* const header = member(parsed, "header");
  if (header == nullptr || !number(member(*header, "revision"))) return std::nullopt;
  return parsed;
}

}  // namespace

std::string range_request(std::string_view key) {
  return json{{"key", to_base64(key)}}.dump();
}

std::string prefix_request(std::string_view prefix) {
  std::string end(prefix);
  ++end.back();
  return json{{"key", to_base64(prefix)}, {"range_end", to_base64(end)}}.dump();
}

std::string swap_request(std::string_view key, std::int64_t revision, const view::View& view) {
  const std::string name = to_base64(key);
  const json compare{
      {"key", name}, {"target", "MOD"}, {"result", "EQUAL"}, {"mod_revision", std::to_string(revision)}};
  const json put{{"request_put", {{"key", name}, {"value", to_base64(view::encode_view(view))}}}};
  const json read{{"request_range", {{"key", name}}}};
  return json{
      {"compare", json::array({compare})}, {"success", json::array({put})}, {"failure", json::array({read})}}
      .dump();
}

std::string watch_request(std::string_view key) {
  return json{{"create_request", {{"key", to_base64(key)}}}}.dump();
}

Result<std::vector<EtcdEntry>> parse_range(std::string_view answer) {
  const auto parsed = parse(answer);
  if (!parsed) return nonsense();
  return parse_entries(*parsed);
}

Result<EtcdSwap> parse_swap(std::string_view answer) {
  const auto parsed = parse(answer);
  if (!parsed) return nonsense();
  const json* const succeeded = member(*parsed, "succeeded");
  if (succeeded != nullptr && *succeeded == json(true))
    return EtcdSwap{true, {.revision = *number(member(*member(*parsed, "header"), "revision"))}};
  const json* const responses = member(*parsed, "responses");
  if (responses == nullptr || !responses->is_array() || responses->empty()) return nonsense();
  const json* const range = member(responses->front(), "response_range");
  if (range == nullptr) return nonsense();
  auto entries = parse_entries(*range);
  if (!entries) return std::unexpected(entries.error());
  return EtcdSwap{false, entries->empty() ? EtcdEntry{} : std::move(entries->front())};
}

std::optional<Epoch> watched_epoch(std::string_view piece) {
  const json parsed = json::parse(piece, nullptr, false);
  const json* const result = member(parsed, "result");
  const json* const events = result == nullptr ? nullptr : member(*result, "events");
  if (events == nullptr || !events->is_array() || events->empty()) return std::nullopt;
  const json* const kv = member(events->back(), "kv");
  if (kv == nullptr) return std::nullopt;
  const auto entry = parse_entry(*kv);
  return entry ? std::optional(entry->view.epoch) : std::nullopt;
}

std::string error_text(std::string_view answer) {
  constexpr std::size_t kMost = 200;
  const json parsed = json::parse(answer, nullptr, false);
  const json* const error = member(parsed, "error");
  std::string text = error != nullptr && error->is_string() ? error->get<std::string>() : std::string(answer);
  text.resize(std::min(text.size(), kMost));
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return text;
}

}  // namespace rdmc::store
