// What a debugger meets in C++: exceptions that cross frames and threads, templates, virtual calls. What natively differs
// is whose turn it is.
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

volatile long value;
static std::mutex lock;

extern "C" __attribute__((noinline)) void here(long number)
{
	value = value + number;
	__asm__ volatile("" ::: "memory");
}

template <typename T> struct Shape {
	T size;
	virtual ~Shape() = default;
	virtual T area() const { return size * size; }
};

template <typename T> struct Box : Shape<T> {
	T area() const override
	{
		here(static_cast<long>(this->size));
		return Shape<T>::area() * this->size;
	}
};

__attribute__((noinline)) static long thrower(long n)
{
	std::string text = "thrown at " + std::to_string(n);
	here(n);
	if (n % 3 == 0)
		throw std::runtime_error(text);
	return n > 10 ? n : thrower(n + 1);
}

static void work(long n)
{
	for (long i = 0; i < 2; i++) {
		std::lock_guard<std::mutex> held(lock);
		try {
			thrower(n + i);
		} catch (const std::exception &error) {
			here(static_cast<long>(error.what()[10]));
		}
		Box<double> box;
		box.size = 2.5 + static_cast<double>(n);
		here(static_cast<long>(box.area()));
	}
}

int main()
{
	std::vector<std::thread> threads;
	for (long i = 0; i < 2; i++)
		threads.emplace_back(work, i * 4);
	for (auto &thread : threads)
		thread.join();
	return 0;
}
