/// @file
/// What comes in pages or as a stream.

#ifndef XLASHAPE_SEQUENCE_H_
#define XLASHAPE_SEQUENCE_H_

#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>

namespace xlashape {

/// Items that are fetched from the server while they are read, once, with a loop:
///
/// @code
/// for (const auto& instruction : client.ListInstructions(request)) std::cout << instruction.name() << "\n";
/// @endcode
///
/// begin() and the iterator's ++ throw an Error where the server cannot give the next item. Leaving the loop early ends the call, as soon as the
/// sequence is destroyed. One thread at a time may read a sequence.
template <class Item>
class Sequence {
  struct State {
    std::function<bool(Item*)> fetch;
    Item item;
  };

 public:
  /// An input iterator. It must not outlive its sequence.
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;  ///< Its items can be read once.
    using value_type = Item;                            ///< What it gives.
    using difference_type = std::ptrdiff_t;             ///< Of no use here, but demanded of iterators.
    using pointer = Item*;                              ///< The current item.
    using reference = Item&;                            ///< The current item.

    /// The end of every sequence.
    iterator() = default;

    /// The current item, which may be moved from.
    Item& operator*() const { return state_->item; }
    /// A member of the current item.
    Item* operator->() const { return &state_->item; }

    /// Fetches the next item.
    iterator& operator++() {
      Advance();
      return *this;
    }
    /// Fetches the next item.
    void operator++(int) { Advance(); }

    /// Whether both are the end, or both read one sequence that goes on.
    friend bool operator==(const iterator& a, const iterator& b) { return a.state_ == b.state_; }
    /// Whether one is the end, and the other is not.
    friend bool operator!=(const iterator& a, const iterator& b) { return a.state_ != b.state_; }

   private:
    friend class Sequence;
    explicit iterator(State* state) : state_(state) { Advance(); }
    void Advance() {
      if (!state_->fetch(&state_->item)) state_ = nullptr;
    }

    State* state_ = nullptr;
  };

  /// A sequence of what `fetch` puts into its argument, until it returns false.
  explicit Sequence(std::function<bool(Item*)> fetch) : state_(new State{std::move(fetch), {}}) {}

  /// Fetches the first item, or the next one if some were read already.
  iterator begin() { return iterator(state_.get()); }

  /// What the iterator becomes after the last item.
  iterator end() { return iterator(); }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace xlashape

#endif  // XLASHAPE_SEQUENCE_H_
