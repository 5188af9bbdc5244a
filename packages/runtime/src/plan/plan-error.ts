/** The plan could not be made, for example because the API server does not serve a kind. */
export class PlanError extends Error {
  override readonly name = 'PlanError';
}
