#ifndef XLASHAPE_SRC_SHA256_H_
#define XLASHAPE_SRC_SHA256_H_

#include <string>
#include <string_view>

namespace xlashape {

/// The SHA-256 of some bytes in hexadecimal.
///
/// It is not a library's, because gRPC brings OpenSSL on some systems and BoringSSL on others, and a program must not link both.
std::string Sha256(std::string_view data);

}  // namespace xlashape

#endif  // XLASHAPE_SRC_SHA256_H_
