// A small game: a ball and a paddle that follows it badly, drawn by SDL, with sound and a timer.
// Runs in: tests of real programs. May call: SDL2.
// Owns: the score, which depends on the clock and on random numbers, and a sum of all that was drawn.

#include <SDL.h>
#include <stdio.h>
#include <stdlib.h>

#define WIDTH 160
#define HEIGHT 120
#define FRAMES 60

static SDL_atomic_t beeps;

static void beep(void *data, Uint8 *stream, int size)
{
	(void)data;
	SDL_AtomicAdd(&beeps, 1);
	SDL_memset(stream, 0, (size_t)size);
}

static Uint32 push(Uint32 every, void *data)
{
	SDL_Event event = {.user = {.type = SDL_USEREVENT, .data1 = data}};
	SDL_PushEvent(&event);
	return every;
}

int main(int argc, char **argv)
{
	(void)argc, (void)argv;
	if (SDL_Init(SDL_INIT_VIDEO | SDL_INIT_AUDIO | SDL_INIT_TIMER)) {
		fprintf(stderr, "%s\n", SDL_GetError());
		return 1;
	}
	SDL_AudioSpec wanted = {.freq = 22050, .format = AUDIO_S16SYS, .channels = 1, .samples = 512, .callback = beep};
	SDL_AudioDeviceID audio = SDL_OpenAudioDevice(NULL, 0, &wanted, NULL, 0);
	SDL_Window *window = SDL_CreateWindow("game", 0, 0, WIDTH, HEIGHT, SDL_WINDOW_SHOWN);
	SDL_Surface *screen = window ? SDL_GetWindowSurface(window) : NULL;
	if (!screen) {
		fprintf(stderr, "%s\n", SDL_GetError());
		return 1;
	}
	SDL_PauseAudioDevice(audio, 0);
	SDL_TimerID timer = SDL_AddTimer(3, push, NULL);
	srand((unsigned)SDL_GetPerformanceCounter());
	int x = rand() % WIDTH, y = 0, dx = 3, dy = 2, paddle = WIDTH / 2, score = 0, users = 0;
	Uint64 drawn = 0;
	for (int frame = 0; frame < FRAMES; frame++) {
		SDL_Event event;
		while (SDL_PollEvent(&event))
			users += event.type == SDL_USEREVENT;
		x += dx, y += dy;
		dx = x <= 0 || x >= WIDTH - 8 ? -dx : dx;
		if (y >= HEIGHT - 16 && dy > 0) {
			score += abs(x - paddle) < 20;
			dy = -dy;
		}
		dy = y <= 0 ? abs(dy) : dy;
		paddle += (x > paddle ? 2 : -2) + rand() % 3 - 1;
		SDL_FillRect(screen, NULL, SDL_MapRGB(screen->format, 0, 0, (Uint8)frame));
		SDL_FillRect(screen, &(SDL_Rect){x, y, 8, 8}, SDL_MapRGB(screen->format, 255, 255, 0));
		SDL_FillRect(screen, &(SDL_Rect){paddle, HEIGHT - 8, 24, 6}, SDL_MapRGB(screen->format, 0, 255, 0));
		SDL_UpdateWindowSurface(window);
		for (int at = 0; at < screen->h * screen->pitch; at += 64)
			drawn = drawn * 31 + ((Uint8 *)screen->pixels)[at];
		SDL_Delay(1);
	}
	SDL_RemoveTimer(timer);
	SDL_CloseAudioDevice(audio);
	printf("%s: score %d, drawn %llx, %d timers, %d beeps, %u ms\n", SDL_GetCurrentVideoDriver(), score,
	       (unsigned long long)drawn, users, SDL_AtomicGet(&beeps), SDL_GetTicks());
	SDL_Quit();
	return 0;
}
