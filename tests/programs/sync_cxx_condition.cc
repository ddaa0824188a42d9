// condition_variable with limits, condition_variable_any with a stop token, notify_all_at_thread_exit, detached threads.
#include "sync.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

using namespace std::chrono_literals;

static std::mutex mutex;
static std::condition_variable cond;
static std::condition_variable_any any;
static int tokens, left = 3;

static void detached(char name)
{
	std::unique_lock lock(mutex);
	for (int i = 0; i < 15; i++) {
		bool got = cond.wait_for(lock, 100us, [] { return tokens > 0; });
		tokens -= got;
		mark(got ? name : (char)(name - 'a' + 'A'));
	}
	left--;
	std::notify_all_at_thread_exit(cond, std::move(lock));
}

int main()
{
	int idle = 0;
	std::jthread stopped([&](std::stop_token stop) {
		std::unique_lock lock(mutex);
		while (!any.wait(lock, stop, [&] { idle++; return stop.stop_requested(); }))
			;
	});
	for (char name : {'a', 'b', 'c'})
		std::thread(detached, name).detach();
	for (int i = 0; i < 30; i++) {
		work_a_little();
		std::lock_guard lock(mutex);
		tokens++;
		cond.notify_one();
		any.notify_all();
	}
	{
		std::unique_lock lock(mutex);
		cond.wait(lock, [] { return left == 0; });
	}
	stopped.request_stop();
	stopped.join();
	printf("%s %d %d\n", line, tokens, idle);
}
