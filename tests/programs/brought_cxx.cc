// Exceptions that are being handled over many operations, one inside of another, and objects of threads that end with them.
// Natively different: who comes when.
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <cstdio>
#include <unistd.h>

static std::mutex mutex;
extern "C" { long ended, caught, sum; }

struct Own {
	long number = 0;
	std::string name;
	~Own()
	{
		std::lock_guard<std::mutex> lock(mutex);
		ended++;
		sum += number + static_cast<long>(name.size());
	}
};

static thread_local Own own;

static void operations(int number)
{
	for (int i = 0; i < 8; i++)
		own.number += getppid() > 0 ? number : 0;
}

static void inner(int number)
{
	try {
		throw std::runtime_error(std::string(number, 'x'));
	} catch (const std::exception &error) {
		operations(number); // it is being handled meanwhile
		own.name += error.what();
		try {
			throw number;
		} catch (int other) {
			operations(other); // two are
		}
		throw; // the outer one
	}
}

static void work(int number)
{
	for (int i = 0; i < 3; i++)
		try {
			inner(number);
		} catch (const std::runtime_error &error) {
			std::lock_guard<std::mutex> lock(mutex);
			caught += std::string(error.what()).size() == static_cast<size_t>(number) && std::current_exception();
		}
}

int main()
{
	std::vector<std::thread> threads;
	for (int number = 1; number <= 4; number++)
		threads.emplace_back(work, number);
	for (auto &thread : threads)
		thread.join();
	std::printf("%ld ended, %ld caught, %ld\n", ended, caught, sum);
	return 0;
}
