// What C++20 builds from atomics that wait: atomic::wait, latch, barrier, semaphores.
#include "sync.h"

#include <atomic>
#include <barrier>
#include <latch>
#include <mutex>
#include <semaphore>
#include <thread>
#include <vector>

static std::atomic<int> turn;
static std::latch start(4);
static std::barrier meeting(4);
static std::counting_semaphore<2> places(2);
static std::binary_semaphore one(1);
static std::mutex mutex;
static unsigned long sum;

static void work(int me)
{
	start.arrive_and_wait();
	for (int i = 0; i < 10; i++) {
		for (int now; (now = turn.load()) % 4 != me;)
			turn.wait(now);
		struct timespec now;
		clock_gettime(CLOCK_REALTIME, &now);
		sum = sum * 7 + now.tv_nsec % 7;
		turn++;
		turn.notify_all();
		meeting.arrive_and_wait();
		work_a_little();
		places.acquire(); // no operation inside: the order of atomics is not recorded
		places.release();
		one.acquire();
		one.release();
		meeting.arrive_and_wait();
	}
}

int main()
{
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back(work, i);
	for (auto &thread : threads)
		thread.join();
	printf("%d %lx\n", turn.load(), sum);
}
