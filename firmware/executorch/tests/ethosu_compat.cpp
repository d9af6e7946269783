/* ExecuTorch's own Ethos-U delegate must compile and link against this driver API, and copy by the override of it. This
 * file uses what that delegate uses, with the types that it relies on, and fails to build when one of them changes. The
 * CMake target `upstream_ethosu` builds the real thing from a checkout of ExecuTorch. */
#include "deuteron/arm_io.h"
#include "ethosu_driver.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <type_traits>

namespace
{

template <typename Wanted, typename Found> constexpr bool same = std::is_same<Wanted, Found>::value;

using Reserve = ethosu_driver *();
using ReserveFor = ethosu_driver *(uint32_t, uint32_t);
using Release = void(ethosu_driver *);
using Invoke = int(ethosu_driver *, const void *, const int, uint64_t *const, const size_t *, const int, void *);
using Product = int(const void *, const int, uint32_t *, uint32_t *);

static_assert(same<Reserve *, decltype(&ethosu_reserve_driver)>, "");
static_assert(same<ReserveFor *, decltype(&ethosu_reserve_driver_ex)>, "");
static_assert(same<Release *, decltype(&ethosu_release_driver)>, "a deleter");
static_assert(same<Invoke *, decltype(&ethosu_invoke_v3)>, "");
static_assert(same<Product *, decltype(&ethosu_get_product_config_from_cop_data)>, "");
static_assert(same<void (*)(void *, const void *, size_t), decltype(&arm_ethos_io_memcpy)>, "the override");

} // namespace

int main()
{
    const std::unique_ptr<ethosu_driver, decltype(&ethosu_release_driver)> none(nullptr, ethosu_release_driver);
    alignas(16) const uint32_t commands[4] = {};
    uint32_t product = 0;
    uint32_t log2_macs = 0;
    uint64_t bases[3] = {};
    const size_t sizes[3] = {};
    const int found = ethosu_get_product_config_from_cop_data(commands, sizeof commands, &product, &log2_macs);
    const int run = ethosu_invoke_v3(none.get(), commands, sizeof commands, bases, sizes, 3, nullptr);
    if (found != -1 || run != -1) {
        std::printf("damaged commands: %d, without a driver: %d\n", found, run);
        return 1;
    }
    return 0;
}
