/** The settings that the operator passes to its controllers, and the replacement of a disabled one. */
export { addDisabledController, controllerDisabled, disabledPermissions } from './disabled-controller.ts';
export type { PodDefaults } from './pod-defaults.ts';
