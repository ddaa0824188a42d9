// Promises, futures, packaged tasks and async: values and exceptions that come from other threads.
#include "sync.h"

#include <chrono>
#include <future>
#include <unistd.h>
#include <vector>

static long slow(int i)
{
	struct timespec now;
	work_a_little();
	clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_nsec % 5 == 0)
		throw i;
	return now.tv_nsec % 1000;
}

int main()
{
	using namespace std::chrono_literals;
	std::vector<std::future<long>> futures;
	std::promise<long> promise;
	std::shared_future<long> shared = promise.get_future().share();
	long sum = 0;
	int thrown = 0, waits = 0;
	for (int i = 0; i < 12; i++)
		futures.push_back(std::async(i % 4 == 3 ? std::launch::deferred : std::launch::async, slow, i));
	std::packaged_task<long(int)> task(slow);
	futures.push_back(task.get_future());
	std::thread runs(std::move(task), 12);
	std::thread keeps([&] { work_a_little(), promise.set_value(getpid()); }), also([&] { work_a_little(); });
	for (auto &future : futures) {
		while (future.wait_for(20us) == std::future_status::timeout)
			waits++;
		try {
			sum += future.get();
		} catch (int i) {
			thrown += i;
		}
	}
	sum += shared.get();
	runs.join();
	keeps.join();
	also.join();
	printf("sum %ld thrown %d waits %d\n", sum, thrown, waits);
}
