#ifndef XLASHAPE_SRC_SHA256_H_
#define XLASHAPE_SRC_SHA256_H_

#include <string>
#include <string_view>

namespace xlashape {

/// The SHA-256 of some bytes in hexadecimal.
std::string Sha256(std::string_view data);

}  // namespace xlashape

#endif  // XLASHAPE_SRC_SHA256_H_
