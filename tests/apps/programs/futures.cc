// Sums in parts by std::async, and shows in which order the parts came to their end.
// Runs in: tests of real programs. May call: libstdc++.
// Owns: the sum, which is always the same, and the order, which is not.

#include <chrono>
#include <future>
#include <iostream>
#include <mutex>
#include <numeric>
#include <vector>

static std::mutex lock;
static std::vector<int> order;

static long part(int number, const std::vector<long> &all)
{
	const size_t each = all.size() / 8;
	long sum = std::accumulate(all.begin() + number * each, all.begin() + (number + 1) * each, 0L);
	std::lock_guard<std::mutex> hold(lock);
	order.push_back(number);
	return sum;
}

int main()
{
	std::vector<long> all(80000);
	std::iota(all.begin(), all.end(), 1);
	long sum = 0;
	for (int round = 0; round < 10; round++) {
		std::vector<std::future<long>> parts;
		for (int number = 0; number < 8; number++)
			parts.push_back(std::async(std::launch::async, part, number, std::cref(all)));
		std::promise<void> done;
		std::future<void> told = done.get_future();
		std::future<void> teller = std::async(std::launch::async, [&done] { done.set_value(); });
		for (auto &one : parts)
			sum += one.get();
		told.wait_for(std::chrono::seconds(30));
		teller.get();
	}
	std::cout << sum;
	for (int number : order)
		std::cout << ' ' << number;
	std::cout << '\n';
	return sum != 32000400000;
}
