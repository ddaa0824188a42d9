// thread_local objects with constructors and destructors, in threads that return and threads that throw inside.
#include "sync.h"

#include <mutex>
#include <thread>
#include <vector>

static std::mutex mutex;

static void note(char c)
{
	std::lock_guard lock(mutex);
	mark(c);
}

struct local {
	char name;
	local() : name('?') { note('+'); }
	~local() { work_a_little(); note(name); }
};

static thread_local local mine;

static void work(char name)
{
	work_a_little();
	try {
		mine.name = name;
		if (name % 2)
			throw name;
	} catch (char c) {
		note((char)(c - 'a' + 'A'));
	}
}

int main()
{
	std::vector<std::thread> threads;
	for (char name = 'a'; name < 'i'; name++)
		threads.emplace_back(work, name);
	for (auto &thread : threads)
		thread.join();
	printf("%s\n", line);
}
