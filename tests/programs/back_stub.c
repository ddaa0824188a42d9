// What the stub server of tests/ingdb pretends to debug: three places and a variable. Its code is never run.
int balance;
struct { long x; int bits : 3; } other;

static void withdraw(int amount)
{
	balance -= amount;
}

static void deposit(int amount)
{
	balance += amount;
}

int main(void)
{
	deposit(100);
	withdraw(130);
	return balance + (int)other.x;
}
