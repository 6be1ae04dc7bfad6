// An ordered set of small keys that knows the rank of each key: a B+ tree whose inner nodes count the keys
// below each child (Bayer and McCreight, "Organization and maintenance of large ordered indices", 1972, with
// counts). Its shape is no part of what it is: the same keys give the same answers. One thread uses it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "apps/replicated-kv/data/small_memory.hpp"

namespace rdmc::kv {

/// `Less(a, b)` says whether a is before b. Keys are copied.
template <typename Key, typename Less>
class RankedTree {
 public:
  explicit RankedTree(SmallMemory& memory) : memory_(&memory) {}
  ~RankedTree() {
    memory_->subtract(size_ * kKeyBytes);
    if (root_ != nullptr) destroy(root_);
  }
  RankedTree(const RankedTree&) = delete;
  RankedTree& operator=(const RankedTree&) = delete;

  std::size_t size() const { return size_; }

  /// The key must not be in the tree.
  void insert(const Key& key) {
    ++size_;
    memory_->add(kKeyBytes);
    if (root_ == nullptr) root_ = create<Leaf>();
    Node* const right = insert(root_, key);
    if (right == nullptr) return;
    Inner* const root = create<Inner>();
    root->size = 2;
    root->children[0] = child(root_);
    root->children[1] = child(right);
    root_ = root;
  }

  /// The key must be in the tree.
  void erase(const Key& key) {
    --size_;
    memory_->subtract(kKeyBytes);
    erase(root_, key);
    if (size_ == 0) {
      destroy(root_);
      root_ = nullptr;
      return;
    }
    while (!root_->is_leaf && root_->size == 1) {
      Inner* const old = static_cast<Inner*>(root_);
      root_ = old->children[0].node;
      memory_->free(old, sizeof(Inner));
    }
  }

  /// The number of keys before the first one for which `is_before(key)` is false. It must be true for all
  /// keys before that one.
  template <typename IsBefore>
  std::size_t count_before(const IsBefore& is_before) const {
    if (root_ == nullptr) return 0;
    std::size_t count = 0;
    const Node* node = root_;
    while (!node->is_leaf) {
      const auto& children = static_cast<const Inner*>(node)->children;
      std::size_t i = 0;
      for (; i + 1 < node->size && is_before(children[i + 1].first); ++i) count += children[i].count;
      node = children[i].node;
    }
    const auto& keys = static_cast<const Leaf*>(node)->keys;
    return count +
           static_cast<std::size_t>(std::partition_point(keys.begin(), keys.begin() + node->size, is_before) -
                                    keys.begin());
  }

  const Key& at(std::size_t rank) const {
    const Node* node = root_;
    while (!node->is_leaf) {
      const auto* child = static_cast<const Inner*>(node)->children.data();
      for (; rank >= child->count; ++child) rank -= child->count;
      node = child->node;
    }
    return static_cast<const Leaf*>(node)->keys[rank];
  }

  /// Calls `visitor(key)` for `count` keys: from `rank` on forwards, or backwards from there.
  template <typename Visitor>
  void visit(std::size_t rank, std::size_t count, bool is_reversed, const Visitor& visitor) const {
    if (count == 0) return;
    if (is_reversed)
      visit_backward(root_, rank, count, visitor);
    else
      visit_forward(root_, rank, count, visitor);
  }

 private:
  /// Nodes are about two thirds full.
  static constexpr std::size_t kKeyBytes = sizeof(Key) * 3 / 2;
  static constexpr std::size_t kKeys = 30, kChildren = 15;

  struct Node {
    std::uint16_t size = 0;
    bool is_leaf;
  };
  struct Leaf : Node {
    Leaf() { this->is_leaf = true; }
    std::array<Key, kKeys> keys;
  };
  struct Child {
    Key first;
    std::size_t count;
    Node* node;
  };
  struct Inner : Node {
    Inner() { this->is_leaf = false; }
    std::array<Child, kChildren> children;
  };

  template <typename Kind>
  Kind* create() {
    return new (memory_->allocate(sizeof(Kind))) Kind();
  }

  void destroy(Node* node) {
    if (node->is_leaf) return memory_->free(node, sizeof(Leaf));
    for (std::size_t i = 0; i < node->size; ++i) destroy(static_cast<Inner*>(node)->children[i].node);
    memory_->free(node, sizeof(Inner));
  }

  static Child child(Node* node) {
    if (node->is_leaf) return {static_cast<Leaf*>(node)->keys[0], node->size, node};
    const auto& children = static_cast<Inner*>(node)->children;
    std::size_t count = 0;
    for (std::size_t i = 0; i < node->size; ++i) count += children[i].count;
    return {children[0].first, count, node};
  }

  /// The child that a key belongs to.
  static std::size_t index_of(const Inner& inner, const Key& key) {
    std::size_t i = 0;
    while (i + 1 < inner.size && !Less()(key, inner.children[i + 1].first)) ++i;
    return i;
  }

  template <typename Array, typename Element>
  static void insert_at(Array& array, std::uint16_t& size, std::size_t index, const Element& element) {
    std::move_backward(array.begin() + index, array.begin() + size, array.begin() + size + 1);
    array[index] = element;
    ++size;
  }
  template <typename Array>
  static void erase_at(Array& array, std::uint16_t& size, std::size_t index) {
    std::move(array.begin() + index + 1, array.begin() + size, array.begin() + index);
    --size;
  }
  /// Moves the elements from `index` on to the end of another node.
  template <typename Array>
  static void move_tail(Array& from, std::uint16_t& from_size, std::size_t index, Array& to,
                        std::uint16_t& to_size) {
    std::move(from.begin() + index, from.begin() + from_size, to.begin() + to_size);
    to_size = static_cast<std::uint16_t>(to_size + from_size - index);
    from_size = static_cast<std::uint16_t>(index);
  }

  /// Inserts an element into a full or not full node. Returns the new node to the right of it, or null. A
  /// node that only grows at its end is left full.
  template <typename Kind, typename Array, typename Element>
  Node* insert_or_split(Kind& node, Array Kind::*array, std::size_t index, const Element& element) {
    constexpr std::size_t kMost = std::tuple_size_v<Array>;
    if (node.size < kMost) {
      insert_at(node.*array, node.size, index, element);
      return nullptr;
    }
    Kind* const right = create<Kind>();
    const std::size_t kept = index == kMost ? kMost : kMost / 2;
    move_tail(node.*array, node.size, kept, right->*array, right->size);
    if (index <= kept && kept != kMost)
      insert_at(node.*array, node.size, index, element);
    else
      insert_at(right->*array, right->size, index - kept, element);
    return right;
  }

  Node* insert(Node* node, const Key& key) {
    if (node->is_leaf) {
      auto& leaf = static_cast<Leaf&>(*node);
      const auto end = leaf.keys.begin() + leaf.size;
      const auto at = std::lower_bound(leaf.keys.begin(), end, key, Less());
      return insert_or_split(leaf, &Leaf::keys, static_cast<std::size_t>(at - leaf.keys.begin()), key);
    }
    auto& inner = static_cast<Inner&>(*node);
    const std::size_t index = index_of(inner, key);
    Node* const right = insert(inner.children[index].node, key);
    inner.children[index] = child(inner.children[index].node);
    return right == nullptr ? nullptr : insert_or_split(inner, &Inner::children, index + 1, child(right));
  }

  void erase(Node* node, const Key& key) {
    if (node->is_leaf) {
      auto& leaf = static_cast<Leaf&>(*node);
      const auto end = leaf.keys.begin() + leaf.size;
      const auto at = std::lower_bound(leaf.keys.begin(), end, key, Less());
      return erase_at(leaf.keys, leaf.size, static_cast<std::size_t>(at - leaf.keys.begin()));
    }
    auto& inner = static_cast<Inner&>(*node);
    const std::size_t index = index_of(inner, key);
    Node* const changed = inner.children[index].node;
    erase(changed, key);
    if (changed->size == 0) {
      destroy(changed);
      erase_at(inner.children, inner.size, index);
      return;
    }
    inner.children[index] = child(changed);
    if (!merge(inner, index) && index > 0) merge(inner, index - 1);
  }

  /// Merges a child with the next one if that leaves some room. Returns true if it has.
  bool merge(Inner& inner, std::size_t index) {
    if (index + 1 >= inner.size) return false;
    Node *const left = inner.children[index].node, *const right = inner.children[index + 1].node;
    const std::size_t most = left->is_leaf ? kKeys : kChildren;
    if (left->size + std::size_t{right->size} > most * 3 / 4) return false;
    if (left->is_leaf)
      move_tail(static_cast<Leaf*>(right)->keys, right->size, 0, static_cast<Leaf*>(left)->keys, left->size);
    else
      move_tail(static_cast<Inner*>(right)->children, right->size, 0, static_cast<Inner*>(left)->children,
                left->size);
    destroy(right);
    inner.children[index] = child(left);
    erase_at(inner.children, inner.size, index + 1);
    return true;
  }

  template <typename Visitor>
  static void visit_forward(const Node* node, std::size_t rank, std::size_t& count, const Visitor& visitor) {
    if (node->is_leaf) {
      for (; rank < node->size && count > 0; ++rank, --count)
        visitor(static_cast<const Leaf*>(node)->keys[rank]);
      return;
    }
    for (std::size_t i = 0; i < node->size && count > 0; ++i) {
      const Child& next = static_cast<const Inner*>(node)->children[i];
      if (rank < next.count) {
        visit_forward(next.node, rank, count, visitor);
        rank = 0;
      } else {
        rank -= next.count;
      }
    }
  }

  template <typename Visitor>
  static void visit_backward(const Node* node, std::size_t rank, std::size_t& count, const Visitor& visitor) {
    if (node->is_leaf) {
      for (std::size_t i = rank + 1; i > 0 && count > 0; --i, --count)
        visitor(static_cast<const Leaf*>(node)->keys[i - 1]);
      return;
    }
    const auto& children = static_cast<const Inner*>(node)->children;
    std::size_t i = 0;
    for (; rank >= children[i].count; ++i) rank -= children[i].count;
    for (;; --i) {
      visit_backward(children[i].node, rank, count, visitor);
      if (i == 0 || count == 0) return;
      rank = children[i - 1].count - 1;
    }
  }

  SmallMemory* memory_;
  Node* root_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace rdmc::kv
