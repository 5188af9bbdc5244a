/**
 * Shared by tests and the benchmark: real servers (API server, PostgreSQL, pet store), the operator as a process, proxies that inject
 * network faults, and helpers that wait for a condition. Imports from src/ and tools/, never from test/.
 *
 * Import its files one by one, because jest loads each imported module again for every test file.
 */
export {};
