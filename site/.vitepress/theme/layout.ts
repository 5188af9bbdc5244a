import { useData } from 'vitepress';
import DefaultTheme from 'vitepress/theme-without-fonts';
import { defineComponent, h, onMounted, watchEffect } from 'vue';

/** The part of the browser's `document` that the layout needs: the project is checked without the types of browsers. */
interface BrowserDocument {
  getElementById(
    id: string,
  ): { setAttribute(name: string, value: string): void; removeAttribute(name: string): void } | null;
}

/** VitePress's layout, whose landing pages lack the landmark `main`. */
export const Layout = defineComponent(() => {
  const { frontmatter } = useData();
  onMounted(() => {
    const { document } = globalThis as unknown as { readonly document: BrowserDocument };
    watchEffect(
      () => {
        const content = document.getElementById('VPContent');
        if (frontmatter.value.layout === 'home') content?.setAttribute('role', 'main');
        else content?.removeAttribute('role');
      },
      { flush: 'post' },
    );
  });
  return () => h(DefaultTheme.Layout);
});
