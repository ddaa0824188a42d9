// call_once whose function throws, and a race to initialise static variables, the constructor of one of which throws.
#include "sync.h"

#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

static std::once_flag flags[8];
static std::mutex mutex;
static int attempts[8], caught;

struct thing {
	char by;
	explicit thing(char name, bool fails = false) : by(name)
	{
		work_a_little();
		if (fails)
			throw std::runtime_error("not yet");
	}
};

static int tries;

static char made_by(char name)
{
	static thing first(name);
	return first.by;
}

static char made_late_by(char name)
{
	static thing second(name, __atomic_add_fetch(&tries, 1, __ATOMIC_SEQ_CST) < 3);
	return second.by;
}

static void note(char c)
{
	std::lock_guard lock(mutex);
	mark(c);
}

static void work(char name)
{
	for (int i = 0; i < 8; i++) {
		try {
			std::call_once(flags[i], [&] {
				work_a_little();
				std::lock_guard lock(mutex);
				if (++attempts[i] < i)
					throw i;
				mark(name);
			});
		} catch (int) {
			std::lock_guard lock(mutex);
			caught++;
		}
	}
	note(made_by(name));
	try {
		note(made_late_by(name));
	} catch (const std::runtime_error &) {
		note('!');
	}
}

int main()
{
	std::vector<std::thread> threads;
	for (char name : {'a', 'b', 'c', 'd'})
		threads.emplace_back(work, name);
	for (auto &thread : threads)
		thread.join();
	printf("%s caught %d\n", line, caught);
}
