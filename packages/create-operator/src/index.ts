/** `@echoperator/create-operator`: the command `create-operator` as functions. */
export { type CreatedOperator, createOperator } from './create-operator.ts';
export { type GivenNames, InvalidNameError } from './names.ts';
