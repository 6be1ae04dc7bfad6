#include "lib/replica/match_queue.hpp"

#include <utility>

namespace rdmc::replica {
namespace {

bool fits(std::int32_t wanted, std::int32_t tag) {
  return wanted == MatchQueue::kAny || wanted == tag;
}

}  // namespace

MatchQueue::Index MatchQueue::add(Entry entry) {
  if (free_ == kNone) {
    entries_.push_back(entry);
    return static_cast<Index>(entries_.size() - 1);
  }
  const Index index = free_;
  free_ = entries_[index].of_source.next;
  entries_[index] = entry;
  return index;
}

void MatchQueue::append(Ends& ends, Index index, Chain chain) {
  (entries_[index].*chain) = {.next = kNone, .previous = ends.last};
  if (ends.last == kNone)
    ends.first = index;
  else
    (entries_[ends.last].*chain).next = index;
  ends.last = index;
}

void MatchQueue::unlink(Ends& ends, Index index, Chain chain) {
  const Links links = entries_[index].*chain;
  (links.previous == kNone ? ends.first : (entries_[links.previous].*chain).next) = links.next;
  (links.next == kNone ? ends.last : (entries_[links.next].*chain).previous) = links.previous;
}

MatchQueue::Index MatchQueue::first_receive(const Ends& ends, std::int32_t tag) const {
  Index index = ends.first;
  while (index != kNone && !fits(entries_[index].tag, tag)) index = entries_[index].of_source.next;
  return index;
}

MatchQueue::Index MatchQueue::first_message(std::int32_t source, std::int32_t tag) const {
  const bool any = source == kAny;
  const Chain chain = any ? &Entry::of_all : &Entry::of_source;
  Index index = any ? all_arrived_.first : arrived_[static_cast<std::uint32_t>(source)].first;
  while (index != kNone && !fits(tag, entries_[index].tag)) index = (entries_[index].*chain).next;
  return index;
}

MatchQueue::Item MatchQueue::remove_receive(Index index) {
  Entry& entry = entries_[index];
  unlink(receives_of(entry.source), index, &Entry::of_source);
  --receives_;
  entry.of_source.next = std::exchange(free_, index);
  return entry.item;
}

MatchQueue::Item MatchQueue::remove_message(Index index) {
  Entry& entry = entries_[index];
  unlink(arrived_[static_cast<std::uint32_t>(entry.source)], index, &Entry::of_source);
  unlink(all_arrived_, index, &Entry::of_all);
  --messages_;
  entry.of_source.next = std::exchange(free_, index);
  return entry.item;
}

std::optional<MatchQueue::Item> MatchQueue::post(Item receive, std::int32_t source, std::int32_t tag) {
  if (const Index message = first_message(source, tag); message != kNone) return remove_message(message);
  const Index index = add(
      {.item = receive, .source = source, .tag = tag, .number = posted_++, .of_source = {}, .of_all = {}});
  append(receives_of(source), index, &Entry::of_source);
  ++receives_;
  return std::nullopt;
}

std::optional<MatchQueue::Item> MatchQueue::arrive(Item message, std::uint32_t source, std::int32_t tag) {
  const Index named = first_receive(waiting_[source], tag);
  const Index any = first_receive(from_any_, tag);
  if (named != kNone || any != kNone) {
    const bool takes_named =
        any == kNone || (named != kNone && entries_[named].number < entries_[any].number);
    return remove_receive(takes_named ? named : any);
  }
  const Index index = add({.item = message,
                           .source = static_cast<std::int32_t>(source),
                           .tag = tag,
                           .number = 0,
                           .of_source = {},
                           .of_all = {}});
  append(arrived_[source], index, &Entry::of_source);
  append(all_arrived_, index, &Entry::of_all);
  ++messages_;
  return std::nullopt;
}

std::optional<MatchQueue::Item> MatchQueue::find(std::int32_t source, std::int32_t tag) const {
  const Index index = first_message(source, tag);
  if (index == kNone) return std::nullopt;
  return entries_[index].item;
}

bool MatchQueue::cancel(Item receive, std::int32_t source) {
  Index index = receives_of(source).first;
  while (index != kNone && entries_[index].item != receive) index = entries_[index].of_source.next;
  if (index == kNone) return false;
  remove_receive(index);
  return true;
}

}  // namespace rdmc::replica
