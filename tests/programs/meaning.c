// What a debugger steps through: calls, loops, recursion, pointers to functions, a function that ends in another one. Nothing of
// it is the library's, whose instructions GDB's own recording may not know; it begins with `prog` and ends with `done`.
struct node { int value; long sum; struct node *next; };

int first, second;
long row[4];
struct node nodes[3] = {{1, 2, &nodes[1]}, {3, 4, &nodes[2]}, {5, 6, 0}};
static int ends;

__attribute__((noinline)) void done(void)
{
	ends++;
}

__attribute__((noinline)) void beyond(void)
{
	ends++;
}

__attribute__((noinline)) int leaf(int n, int m)
{
	static int calls;
	int r = n + m;
	calls++;
	first = r & 7;
	return r;
}

__attribute__((noinline)) int loop(int n, int m)
{
	int sum = 0;
	for (int i = 0; i < n; i++) {
		sum += leaf(i, m);
		row[i & 3] = sum;
	}
	return sum;
}

__attribute__((noinline)) int again(int n, int m)
{
	if (n <= 0)
		return m;
	second = n;
	return again(n - 1, m + 1) + 1;
}

__attribute__((noinline)) int last(int n, int m)
{
	second = m & 3;
	return leaf(m, n);
}

static inline __attribute__((always_inline)) int inside(int n)
{
	int k = n & 3;
	first += k;
	return k * 2;
}

static int (*const table[])(int, int) = {leaf, loop, again, last};

__attribute__((noinline)) int walk(int n)
{
	int count = 0;
	for (struct node *node = nodes; node; node = node->next) {
		node->sum += n;
		node->value = table[(count + n) & 3](2, n);
		count++;
	}
	return count + inside(n);
}

__attribute__((noinline)) int prog(void)
{
	int total = 0;
	first = 1;
	for (int k = 0; k < 4; k++) {
		total += walk(k);
		second = total & 7;
	}
	total += loop(3, 1);
	total += again(3, 2);
	first = total & 7;
	done();
	return total;
}

int main(void)
{
	int total = prog();
	beyond();
	return total != 99 ? 0 : 1;
}
