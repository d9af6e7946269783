/* Zephyr's assertion, as it is with CONFIG_ASSERT. */
#ifndef ZEPHYR_ASSERT_H
#define ZEPHYR_ASSERT_H

void assert_print(const char *fmt, ...);
void assert_post_action(const char *file, unsigned int line);

#define __ASSERT(test, ...)                                                                                            \
    do {                                                                                                               \
        if (!(test)) {                                                                                                 \
            assert_print(__VA_ARGS__);                                                                                 \
            assert_post_action(__FILE__, __LINE__);                                                                    \
        }                                                                                                              \
    } while (0)

#endif
