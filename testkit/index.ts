/**
 * What tests and the benchmark share: real servers (API server, PostgreSQL, pet store), the operator as a process, proxies
 * that make network faults, and helpers that wait for a condition. It imports from src/ and tools/, and never from test/.
 *
 * Import its files one by one: jest loads each imported module anew for every test file.
 */
export {};
