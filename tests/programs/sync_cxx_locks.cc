// Locks of C++: mutex, recursive_mutex, timed_mutex, shared_mutex, shared_timed_mutex, scoped_lock.
#include "sync.h"

#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

static std::mutex plain, second;
static std::recursive_mutex deep;
static std::timed_mutex timed;
static std::shared_mutex shared;
static std::shared_timed_mutex shared_timed;
static int late, missed, value;

static void work(int me)
{
	for (int i = 0; i < 12; i++) {
		bool got = timed.try_lock_for(30us), read = shared_timed.try_lock_shared_for(20us);
		work_a_little();
		if (read)
			shared_timed.unlock_shared();
		bool wrote = shared_timed.try_lock_until(std::chrono::system_clock::now() + 20us);
		if (wrote)
			shared_timed.unlock();
		if (got)
			timed.unlock();
		{
			std::shared_lock reading(shared);
			work_a_little();
		}
		std::scoped_lock both(plain, second);
		std::unique_lock writing(shared, std::defer_lock);
		missed += !writing.try_lock();
		std::lock_guard once(deep), twice(deep);
		late += !got + !read + !wrote;
		value = value * 3 + me;
		mark("abc"[me]);
	}
}

int main()
{
	std::vector<std::thread> threads;
	for (int i = 0; i < 3; i++)
		threads.emplace_back(work, i);
	for (auto &thread : threads)
		thread.join();
	printf("%s %d late %d missed %d\n", line, value, late, missed);
}
