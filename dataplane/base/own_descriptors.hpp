// Which descriptors of the process are ours, and not the application's. A child of fork() inherits them all,
// and as long as it lives the kernel keeps what they stand for: peers of a parent that has died would wait
// for it. So the child closes them, knowing no more than their numbers. The table is the process's, as the
// numbers are. Any thread; in the child without locks or memory.
#pragma once

namespace rdmc {

/// `fd` has just been opened; less than 0 is none.
void note_own(int fd) noexcept;
/// It is about to be closed, or to become another's.
void forget_own(int fd) noexcept;

/// In a child, before it uses any of us: closes them all, and changes nothing that it shares with its parent.
/// Between the system call that opens one and note_own() a fork() in another thread misses it.
void close_inherited() noexcept;

}  // namespace rdmc
