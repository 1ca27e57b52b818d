#pragma once
#include <stdexcept>

namespace trainyard {

// A peer that is missing, silent or gone, or whose call does not fit; the text names its rank.
class PeerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A peer that has closed its connections: it has ended, and knows why. Whoever tells the user looks
// there for the cause.
class PeerGone : public PeerError {
 public:
  using PeerError::PeerError;
};

}  // namespace trainyard
